package zdb_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/looktest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

const box = "zdb-ssd0-user"

func TestLookReportsDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(f *world)
		want    string // drift of 2-1, which must be seen
	}{
		"nothing":                 {func(*world) {}, ""},
		"its container is gone":   {func(f *world) { f.Containers.Remove(box) }, "its zdb container is gone"},
		"it has drifted":          {func(f *world) { f.Containers.SetDrift(box, "its root is gone") }, "its zdb container: its root is gone"},
		"it was never started":    {func(f *world) { f.Containers.Reboot() }, "its zdb container doesn't run"},
		"it has ended":            {func(f *world) { f.Containers.End(box, 137) }, "its zdb container has ended with exit code 137"},
		"its volume is gone":      {func(f *world) { f.Storage.Lose(box) }, "the volume of its zdb container can't be found"},
		"its layer is gone":       {func(f *world) { f.Storage.Lose(box + ".layer") }, "its zdb container's writable layer is gone"},
		"it has no port":          {func(f *world) { f.ZDB.Release(box) }, "its zdb container has no port"},
		"its size was changed":    {change(func(n *node.ZDBNamespaceSpec) { n.Size = gib }), "its size is 1073741824 bytes, must be 2147483648"},
		"it was made public":      {change(func(n *node.ZDBNamespaceSpec) { n.Public = true }), "public is true, must be false"},
		"it was given a password": {change(func(n *node.ZDBNamespaceSpec) { n.Password = "x" }), "password protection is true, must be false"},
		"the node has moved":      {func(f *world) { f.homes["2-1"] = told(f, "203.0.113.99") }, "its user was told the address 203.0.113.99, the node has "},
		"told its IPv6": {func(f *world) {
			f.ZDB.SetAddresses("203.0.113.1", "2001:db8::1")
			f.homes["2-1"] = told(f, "2001:db8::1")
		}, ""},
		"its IPv4 is away": {func(f *world) {
			f.homes["2-1"] = told(f, "203.0.113.1")
			f.ZDB.SetAddresses("", "2001:db8::1")
		}, ""},
		"no network": {func(f *world) { f.homes["2-1"] = told(f, "203.0.113.99"); f.ZDB.SetAddresses("", "") }, ""},
		"zdb doesn't list": {func(f *world) { f.Fail("ZDB.List", node.Errorf(node.Transient, "no answer")) },
			"its zdb doesn't answer: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			r := f.reservation("2-1", aNamespace(""))
			f.provision("2-1", aNamespace(""))
			f.homes["2-1"] = zdb.Home{Container: box, Reservation: r}
			c.happens(f)
			f.Forget()
			seen, err := f.provisioner().Look(context.Background())
			_, saw := only(t, seen, "2-1")
			what := saw.Drift
			if err != nil || len(seen) != 1 || what != c.want && (c.want == "" || !strings.HasPrefix(what, c.want)) {
				t.Fatalf("saw %v, %v; want %q", seen, err, c.want)
			}
			if name != "zdb doesn't list" {
				looktest.Same(t, f.provisioner(), seen)
			}
			if len(f.Changes()) != 0 {
				t.Errorf("it changed something: %q", f.Changes())
			}
			if name == "zdb doesn't list" {
				return
			}
			f.provision("2-1", aNamespace("")) // repairs it
			f.homes["2-1"] = zdb.Home{Container: box, Reservation: r}
			if seen, err := f.provisioner().Look(context.Background()); err != nil || len(seen) != 1 || drift(t, seen, "2-1") != "" {
				t.Errorf("made right, it saw %v, %v", seen, err)
			}
		})
	}
}

// told is the home of 2-1 whose user was told an address.
func told(f *world, address string) zdb.Home {
	home := f.homes["2-1"]
	home.Address = address
	return home
}

// only returns the single label and state seen for an ID.
func only(t *testing.T, seen map[provisioner.Label]provisioner.Seen, id string) (provisioner.Label, provisioner.Seen) {
	t.Helper()
	var labels []provisioner.Label
	for l := range seen {
		if l.ID == id {
			labels = append(labels, l)
		}
	}
	if len(labels) != 1 {
		t.Fatalf("saw %v, want %s once", seen, id)
	}
	return labels[0], seen[labels[0]]
}

func drift(t *testing.T, seen map[provisioner.Label]provisioner.Seen, id string) string {
	t.Helper()
	_, what := only(t, seen, id)
	return what.Drift
}

func change(what func(n *node.ZDBNamespaceSpec)) func(f *world) {
	return func(f *world) {
		spec := f.namespace(box, "2-1")
		what(&spec)
		f.ZDB.PutNamespace(pathOf(box), spec)
	}
}

func TestANamespaceThatIsGoneIsNotSeen(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	f.provision("3-1", aNamespace(""))
	f.ZDB.RemoveNamespace(pathOf(box), "2-1")
	seen, err := f.provisioner().Look(context.Background())
	if err != nil || slices.Contains(provisioner.IDs(seen), "2-1") {
		t.Errorf("saw %v, %v", seen, err)
	}
	f.provision("2-1", aNamespace(""))
	if seen, err := f.provisioner().Look(context.Background()); err != nil || drift(t, seen, "2-1") != "" || len(seen) != 2 {
		t.Errorf("made again, it saw %v, %v", seen, err)
	}
}

func TestOrphansAreListed(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	f.provision("5-1", aNamespace(""))
	delete(f.homes, "5-1")
	for _, name := range []string{"default", "07-1", "backup"} {
		f.ZDB.PutNamespace(pathOf(box), node.ZDBNamespaceSpec{Container: box, Name: name})
	}
	ids, err := f.provisioner().List(context.Background())
	if err != nil || !slices.Equal(ids, []string{"2-1", "5-1"}) {
		t.Errorf("lists %q, %v", ids, err)
	}
}

func TestALookNeedsAllModules(t *testing.T) {
	for _, call := range []string{"ZDB.Servers", "Storage.InspectFilesystem", "Containers.Inspect", "homes"} {
		f := newWorld(t)
		f.provision("2-1", aNamespace(""))
		if silent := node.Errorf(node.Transient, "silent"); call == "homes" {
			f.unread = silent
		} else {
			f.Fail(call, silent)
		}
		if seen, err := f.provisioner().Look(context.Background()); node.KindOf(err) != node.Transient || len(seen) != 0 {
			t.Errorf("%s fails: saw %v, %v", call, slices.Collect(maps.Keys(seen)), err)
		}
	}
}

// Namespaces of one ID may be in two zdb containers: Look returns both, and removing
// the orphan leaves the other.
func TestTwoNamespacesOfOneID(t *testing.T) {
	f := newWorld(t)
	seq := strings.Replace(aNamespace(""), "user", "seq", 1)
	f.provision("2-1", aNamespace(""))
	delete(f.homes, "2-1")
	f.provision("2-1", seq)
	own := f.reservation("2-1", aNamespace(""))
	orphan, err := f.reservation("2-1", seq).Hash()
	if err != nil {
		t.Fatal(err)
	}
	f.homes["2-1"] = zdb.Home{Container: box, Reservation: own}
	p := f.provisioner()
	seen, err := p.Look(context.Background())
	if err != nil || len(seen) != 2 || seen[provisioner.LabelOf("2-1", f.hash(aNamespace("")))].Drift != "" {
		t.Fatalf("saw %v, %v", seen, err)
	}
	if _, there := seen[provisioner.Label{ID: "2-1", Hash: orphan}]; !there {
		t.Errorf("the orphan isn't among %v", seen)
	}
	if err := p.Remove(context.Background(), provisioner.Label{ID: "2-1", Hash: orphan}); err != nil {
		t.Fatal(err)
	}
	left := f.left()
	if !slices.Contains(left, "namespace "+box+"/2-1") || slices.Contains(left, "namespace zdb-ssd0-seq/2-1") {
		t.Errorf("without the orphan there is %v", left)
	}
}
