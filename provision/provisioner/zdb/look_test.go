package zdb_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

const box = "zdb-ssd0-user"

func TestALookTellsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(f *fakeNode)
		want    string // of 2-1, which is to be there
	}{
		"nothing":                 {func(*fakeNode) {}, ""},
		"its container is gone":   {func(f *fakeNode) { delete(f.boxes, box); delete(f.runs, box) }, "its zdb container is gone"},
		"it has drifted":          {func(f *fakeNode) { f.drift[box] = "its root is gone" }, "its zdb container: its root is gone"},
		"it was never started":    {func(f *fakeNode) { f.reboot() }, "its zdb container doesn't run"},
		"it has ended":            {func(f *fakeNode) { f.reboot(); f.ended[box] = true }, "its zdb container has ended with exit code 137"},
		"its volume is gone":      {func(f *fakeNode) { delete(f.volumes, box) }, "the volume of its zdb container can't be found"},
		"its layer is gone":       {func(f *fakeNode) { delete(f.volumes, box+".layer") }, "what holds its zdb container's own files is gone"},
		"it has no port":          {func(f *fakeNode) { delete(f.ports, box) }, "its zdb container has no port"},
		"its size was changed":    {change(func(n *node.ZDBNamespaceSpec) { n.Size = gib }), "its size is 1073741824 bytes, must be 2147483648"},
		"it was made public":      {change(func(n *node.ZDBNamespaceSpec) { n.Public = true }), "public is true, must be false"},
		"it was given a password": {change(func(n *node.ZDBNamespaceSpec) { n.Password = "x" }), "that it has a password is true, must be false"},
		"zdb doesn't list": {func(f *fakeNode) { f.reading["list namespaces"] = node.Errorf(node.Transient, "no answer") },
			"its zdb doesn't answer: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeNode(t)
			r := f.reservation("2-1", aNamespace(""))
			f.provision("2-1", aNamespace(""))
			f.homes["2-1"] = zdb.Home{Container: box, Reservation: r}
			c.happens(f)
			f.calls = nil
			seen, err := f.provisioner().Look(context.Background())
			saw, there := seen["2-1"]
			what := saw.Drift
			if err != nil || !there || len(seen) != 1 || what != c.want && (c.want == "" || !strings.HasPrefix(what, c.want)) {
				t.Fatalf("saw %v, %v; want %q", seen, err, c.want)
			}
			if len(f.calls) != 0 {
				t.Errorf("it changed something: %q", f.calls)
			}
			if name == "zdb doesn't list" {
				return
			}
			f.provision("2-1", aNamespace("")) // which makes it right
			f.homes["2-1"] = zdb.Home{Container: box, Reservation: r}
			if seen, err := f.provisioner().Look(context.Background()); err != nil || len(seen) != 1 || seen["2-1"].Drift != "" {
				t.Errorf("made right, it saw %v, %v", seen, err)
			}
		})
	}
}

func change(what func(n *node.ZDBNamespaceSpec)) func(f *fakeNode) {
	return func(f *fakeNode) {
		spec := f.data[box]["2-1"]
		what(&spec)
		f.data[box]["2-1"] = spec
	}
}

func TestANamespaceThatIsGoneIsNotSeen(t *testing.T) {
	f := newFakeNode(t)
	f.provision("2-1", aNamespace(""))
	f.provision("3-1", aNamespace(""))
	delete(f.data[box], "2-1")
	seen, err := f.provisioner().Look(context.Background())
	if _, there := seen["2-1"]; err != nil || there {
		t.Errorf("saw %v, %v", seen, err)
	}
	f.provision("2-1", aNamespace(""))
	if seen, err := f.provisioner().Look(context.Background()); err != nil || seen["2-1"].Drift != "" || len(seen) != 2 {
		t.Errorf("made again, it saw %v, %v", seen, err)
	}
}

func TestOrphansAreListed(t *testing.T) {
	f := newFakeNode(t)
	f.provision("2-1", aNamespace(""))
	f.provision("5-1", aNamespace(""))
	delete(f.homes, "5-1")
	for _, name := range []string{"default", "07-1", "backup"} {
		f.data[box][name] = node.ZDBNamespaceSpec{Container: box, Name: name}
	}
	ids, err := f.provisioner().List(context.Background())
	if err != nil || !slices.Equal(ids, []string{"2-1", "5-1"}) {
		t.Errorf("lists %q, %v", ids, err)
	}
}

func TestALookNeedsAllModules(t *testing.T) {
	for _, call := range []string{"servers", "list volumes", "list containers", "homes"} {
		f := newFakeNode(t)
		f.provision("2-1", aNamespace(""))
		f.reading[call] = node.Errorf(node.Transient, "silent")
		if seen, err := f.provisioner().Look(context.Background()); node.KindOf(err) != node.Transient || len(seen) != 0 {
			t.Errorf("%s fails: saw %v, %v", call, slices.Collect(maps.Keys(seen)), err)
		}
	}
}
