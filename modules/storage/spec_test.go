package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestParsePools(t *testing.T) {
	disk, looped := ParseDisk, ParseLoop
	cases := []struct {
		parse func(string) (PoolSpec, error)
		text  string
		want  PoolSpec
		err   string
	}{
		{disk, "/dev/sdb", PoolSpec{Disk: "/dev/sdb"}, ""},
		{disk, "SSD:/dev/sdb", PoolSpec{Type: workload.SSD, Disk: "/dev/sdb"}, ""},
		{disk, "hdd:/dev/disk/by-id/x", PoolSpec{Type: workload.HDD, Disk: "/dev/disk/by-id/x"}, ""},
		{disk, "sdb", PoolSpec{}, `disk is "sdb", must be an absolute path`},
		{disk, "", PoolSpec{}, "either a disk or a loop size"},
		{disk, "tape:/dev/st0", PoolSpec{}, `type is "tape", must be SSD or HDD`},
		{looped, "20GiB", PoolSpec{Type: workload.SSD, LoopSize: 20 * gib}, ""},
		{looped, "HDD:512 MiB", PoolSpec{Type: workload.HDD, LoopSize: 512 * mib}, ""},
		{looped, "100MiB", PoolSpec{}, "size is 100 MiB, must be at least 256 MiB"},
		{looped, "4194304TiB", PoolSpec{Type: workload.SSD, LoopSize: 1 << 62}, ""},
		{looped, "4194305TiB", PoolSpec{}, "must be at most"},
		{looped, "99999999TiB", PoolSpec{}, "it is above"},
		{looped, "20GB", PoolSpec{}, "KiB, MiB, GiB or TiB"},
		{looped, "-1GiB", PoolSpec{}, "whole number"},
		{looped, "1.5GiB", PoolSpec{}, "whole number"},
		{looped, "", PoolSpec{}, "whole number"},
	}
	for _, c := range cases {
		got, err := c.parse(c.text)
		if c.err == "" && (err != nil || got != c.want) {
			t.Errorf("%q is %+v (%v), want %+v", c.text, got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !errors.Is(err, node.Invalid)) {
			t.Errorf("%q gives %v, want an error that says %q", c.text, err, c.err)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{State: "/s"}
	check(t, good.Validate())
	one := PoolSpec{Name: "a", LoopSize: gib}
	for want, c := range map[string]Config{
		"State is":               {State: "s"},
		"Mounts is":              {State: "/s", Mounts: "m"},
		"Quota is":               {State: "/s", Quota: "much"},
		`two pools are named`:    {State: "/s", Pools: []PoolSpec{one, one}},
		"is named twice":         {State: "/s", Pools: []PoolSpec{{Disk: "/d"}, {Disk: "/d"}}},
		`name is "A"`:            {State: "/s", Pools: []PoolSpec{{Name: "A", LoopSize: gib}}},
		`name is "../x"`:         {State: "/s", Pools: []PoolSpec{{Name: "../x", LoopSize: gib}}},
		`name is "-x"`:           {State: "/s", Pools: []PoolSpec{{Name: "-x", LoopSize: gib}}},
		`type is "floppy"`:       {State: "/s", Pools: []PoolSpec{{Type: "floppy", LoopSize: gib}}},
		"either a disk or a":     {State: "/s", Pools: []PoolSpec{{Disk: "/d", LoopSize: gib}}},
		"must be at least 256 M": {State: "/s", Pools: []PoolSpec{{LoopSize: mib}}},
	} {
		if err := c.Validate(); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives %v, want an error that says %q", c, err, want)
		}
		if _, err := Open(t.Context(), c); !errors.Is(err, node.Invalid) {
			t.Errorf("opening %+v gives %v", c, err)
		}
	}
}

func TestLoopNames(t *testing.T) {
	got := nameLoops([]PoolSpec{
		{LoopSize: gib}, {Name: "ssd1", LoopSize: gib}, {Type: workload.HDD, LoopSize: gib}, {Disk: "/d"}, {LoopSize: gib},
	})
	want := []string{"ssd0", "ssd1", "hdd0", "", "ssd2"}
	for i, s := range got {
		if s.Name != want[i] {
			t.Errorf("pool %d is named %q, want %q", i, s.Name, want[i])
		}
	}
	if c := (Config{State: "/s/"}).complete(); c.Mounts != "/s/mnt" || len(c.Pools) != 1 || c.Pools[0].Name != "ssd0" {
		t.Errorf("completed it is %+v", c)
	}
}

// TestNamesStayInside wants a name that is accepted to be that of one file
// right in its folder, and none of ours.
func TestNamesStayInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./a\-0_]{0,70}`)).Draw(t, "name")
		if err := checkName("filesystem", name); err != nil {
			if !errors.Is(err, node.Invalid) || len(err.Error()) > 1000 {
				t.Fatalf("%q gives %v", name, err)
			}
			return
		}
		path := filepath.Join("/pool/volumes", name)
		if filepath.Dir(path) != "/pool/volumes" || filepath.Base(path) != name || strings.HasPrefix(name, ".") {
			t.Fatalf("%q becomes %s", name, path)
		}
	})
	for _, name := range []string{"7-1", "12345-12345", "a", "A.b_c-9", strings.Repeat("a", 64)} {
		if err := checkName("filesystem", name); err != nil {
			t.Errorf("%q gives %v", name, err)
		}
	}
}
