package disks

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func disk(name, holds string) Disk {
	return Disk{Name: name, IDs: []string{"virtio-" + name}, Bytes: 1 << 30, Holds: holds}
}

func pooled(name, pool, uuid string) Disk {
	d := disk(name, "pool "+pool)
	d.Pool, d.UUID = pool, uuid
	return d
}

const by = "/dev/disk/by-id/virtio-"

func TestChoose(t *testing.T) {
	own := map[string]string{"ssd-a": "1"}
	empty, foreign, mine, other := disk("vda", ""), disk("vdb", "ext4"), pooled("vdc", "ssd-a", "1"), pooled("vdd", "ssd-b", "2")
	boot := disk("vde", "a partition table")
	boot.Boot = true
	stick := disk("sda", "")
	stick.Removable = true
	locked := disk("vdf", "")
	locked.ReadOnly = true
	broken := disk("vdg", "")
	broken.Unread = "cannot read it: input/output error"
	drive := Disk{Name: "sdb", Removable: true}
	for name, c := range map[string]struct {
		found     []Disk
		wish      Wish
		own       map[string]string
		use, make []string
		left      string
	}{
		"an empty disk that wasn't asked for":  {found: []Disk{empty}, left: "disks=empty"},
		"an empty disk":                        {found: []Disk{empty}, wish: Wish{Empty: true}, use: []string{by + "vda"}, make: []string{by + "vda"}},
		"a file system":                        {found: []Disk{foreign}, wish: Wish{Empty: true}, left: "it holds ext4"},
		"a file system that is named":          {found: []Disk{foreign}, wish: Wish{Named: []string{"SSD:/dev/vdb"}}, use: []string{"SSD:/dev/vdb"}, make: []string{"/dev/vdb"}},
		"a named empty disk":                   {found: []Disk{empty}, wish: Wish{Named: []string{by + "vda"}}, use: []string{by + "vda"}, make: []string{by + "vda"}},
		"its own pool":                         {found: []Disk{mine}, own: own, use: []string{by + "vdc"}},
		"another node's pool":                  {found: []Disk{other}, wish: Wish{Empty: true}, own: own, left: "of another node, UUID 2"},
		"another node's pool that is named":    {found: []Disk{other}, wish: Wish{Named: []string{"/dev/vdd"}}, own: own, use: []string{"/dev/vdd"}, make: []string{"/dev/vdd"}},
		"a pool before the state is known":     {found: []Disk{other}, use: []string{by + "vdd"}},
		"an unfinished pool":                   {found: []Disk{other}, wish: Wish{Empty: true}, use: []string{by + "vdd"}, make: []string{by + "vdd"}},
		"a pool of its name with another UUID": {found: []Disk{pooled("vdc", "ssd-a", "9")}, own: own, left: "another node"},
		"the boot medium":                      {found: []Disk{boot}, wish: Wish{Empty: true}},
		"a stick":                              {found: []Disk{stick}, wish: Wish{Empty: true}, left: "taken out"},
		"a stick that is named":                {found: []Disk{stick}, wish: Wish{Named: []string{"/dev/sda"}}, use: []string{"/dev/sda"}, make: []string{"/dev/sda"}},
		"a disk that can only be read":         {found: []Disk{locked}, wish: Wish{Empty: true}, left: "only be read"},
		"a disk that can't be read":            {found: []Disk{broken}, wish: Wish{Named: []string{"/dev/vdg"}}, left: "input/output"},
		"a drive without a medium":             {found: []Disk{drive}, wish: Wish{Empty: true}},
		"named disks, in the operator's order": {found: []Disk{empty, foreign}, wish: Wish{Named: []string{"/dev/vdb", "HDD:/dev/vda"}}, use: []string{"HDD:/dev/vda", "/dev/vdb"}, make: []string{"/dev/vdb", "/dev/vda"}},
	} {
		p := Choose(c.found, c.wish, c.own)
		if !slices.Equal(p.Use, c.use) || !slices.Equal(p.Make, c.make) {
			t.Errorf("%s: it uses %q and makes on %q, want %q and %q", name, p.Use, p.Make, c.use, c.make)
		}
		if left := len(p.Left) == 1 && strings.Contains(p.Left[0].Why, c.left); left != (c.left != "") || c.left == "" && len(p.Left) > 0 {
			t.Errorf("%s: left are %+v, want because of %q", name, p.Left, c.left)
		}
	}
	if p := Choose(nil, Wish{}, own); !slices.Equal(p.Missing, []string{"1"}) {
		t.Errorf("missing are %q", p.Missing)
	}
}

// TestNothingIsLost generates machines: no disk with anything on it is used, unless it is named or has a pool of the node's.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := map[string]string{}
		if rapid.Bool().Draw(t, "state") {
			own = map[string]string{"ssd-a": "1", "ssd-b": "2"}
		}
		var found []Disk
		for i := range rapid.IntRange(0, 6).Draw(t, "disks") {
			name := "vd" + string(rune('a'+i))
			d := disk(name, rapid.SampledFrom([]string{"", "", "ext4", "a partition table"}).Draw(t, "holds"))
			if rapid.IntRange(0, 2).Draw(t, "pool") == 0 {
				d = pooled(name, rapid.SampledFrom([]string{"ssd-a", "ssd-b", "ssd-c"}).Draw(t, "name"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "uuid"))
			}
			d.Boot, d.ReadOnly, d.Removable = rapid.Bool().Draw(t, "boot"), rapid.Bool().Draw(t, "ro"), rapid.Bool().Draw(t, "removable")
			found = append(found, d)
		}
		wish := Wish{Empty: rapid.Bool().Draw(t, "empty")}
		if !wish.Empty {
			wish.Named = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"/dev/vda", "SSD:" + by + "vdb", "/dev/vdc"}), func(s string) string { return s }).Draw(t, "named")
		}
		p := Choose(found, wish, own)
		for _, d := range found {
			used := slices.ContainsFunc(p.Use, func(u string) bool { return slices.Contains(d.Names(), pathOf(u)) })
			named := nameOf(d, wish.Named) != ""
			if used && (d.Boot || d.Holds != "" && !named && own[d.Pool] != d.UUID) {
				t.Fatalf("%+v is used with %+v, own %v", d, wish, own)
			}
			if !used && !d.Boot && d.Pool != "" && own[d.Pool] == d.UUID {
				t.Fatalf("its own %+v isn't used", d)
			}
		}
		for _, m := range p.Make {
			if !slices.ContainsFunc(p.Use, func(u string) bool { return pathOf(u) == m }) {
				t.Fatalf("%s is made a pool, and isn't used", m)
			}
		}
		for uuid := range maps.Values(own) {
			there := slices.ContainsFunc(found, func(d Disk) bool { return d.UUID == uuid })
			if there == slices.Contains(p.Missing, uuid) {
				t.Fatalf("pool %s: there %v, missing %v", uuid, there, p.Missing)
			}
		}
	})
}

func TestWaiting(t *testing.T) {
	for s, want := range map[Seen]bool{
		{}:                                  false,
		{Quiet: time.Hour}:                  false,
		{Drivers: true, Quiet: time.Second}: true,
		{Drivers: true}:                     false,
		{Drivers: true, Late: true, Quiet: 9 * time.Second}:  false,
		{Drivers: true, Late: true, Quiet: 10 * time.Second}: true,
	} {
		if s.Settled() != want {
			t.Errorf("%+v: settled %v", s, !want)
		}
	}
	missing := Plan{Missing: []string{"1"}}
	if !(Seen{}).Complete(Plan{}) || (Seen{Drivers: true, Quiet: time.Second}).Complete(missing) || !(Seen{Drivers: true, Quiet: 10 * time.Second}).Complete(missing) {
		t.Error("a node waits for pools that are there, or not for those that are missing, or for ever")
	}
}
