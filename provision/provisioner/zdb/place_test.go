package zdb_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
)

// ssds gives the node these SSD pools, each with so many free bytes.
func (f *world) ssds(free map[string]uint64) {
	pools := f.Storage.Pools()
	for _, name := range slices.Sorted(maps.Keys(free)) {
		i := slices.IndexFunc(pools, func(p node.Pool) bool { return p.Name == name })
		if i < 0 {
			i, pools = len(pools), append(pools, node.Pool{Name: name, Path: "/pools/" + name, DiskType: workload.SSD})
		}
		pools[i].Offered = pools[i].Reserved + free[name]
	}
	f.Storage.SetPools(func([]node.Pool) []node.Pool { return pools })
}

// two is a node with pools a and b, and on a a zdb container with namespace 1-1.
func two(t *testing.T) *world {
	t.Helper()
	f := newWorld(t)
	f.Storage.SetPools(func([]node.Pool) []node.Pool { return nil })
	f.ssds(map[string]uint64{"a": 50 * gib})
	f.provision("1-1", aNamespace(""))
	f.ssds(map[string]uint64{"b": 50 * gib})
	return f
}

func (f *world) wantOn(pool string) {
	f.t.Helper()
	got, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
	if err != nil || !strings.Contains(string(got), `"zdb-`+pool+`-user"`) {
		f.t.Fatalf("result is %s, %v; want it on %s", got, err, pool)
	}
}

func TestWhichPool(t *testing.T) {
	f := newWorld(t)
	f.Storage.SetPools(func([]node.Pool) []node.Pool { return nil })
	f.ssds(map[string]uint64{"a": 10 * gib, "b": 20 * gib})
	f.wantOn("b") // the most room

	need := zdbspace.Bound(2 * gib)
	for _, c := range []struct {
		a, b uint64
		want string
	}{
		{need, 50 * gib, "a"}, // the existing zdb container, if its pool's room is just enough
		{need - 1, 50 * gib, "b"},
		{need - 1, need + 128*mib, "b"}, // a new container needs more
		{need - 1, need + 128*mib - 1, ""},
	} {
		f := two(t)
		f.ssds(map[string]uint64{"a": c.a, "b": c.b})
		if c.want != "" {
			f.wantOn(c.want)
			continue
		}
		made := f.left()
		_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
		if node.KindOf(err) != node.NoSpace || !slices.Equal(f.left(), made) {
			t.Errorf("error is %v, on the node %q", err, f.left())
		}
	}
}

// Deleted data that isn't reclaimed yet doesn't count as lack of space.
func TestRoomOfExpiredNamespaces(t *testing.T) {
	f := two(t)
	f.provision("3-1", aNamespace(""))
	f.hold("zdb-a-user", aVolume(2, 2))
	f.decommission("3-1", aNamespace(""))
	f.ssds(map[string]uint64{"a": 0, "b": 0})
	f.wantOn("a")

	f = two(t)
	f.provision("3-1", aNamespace(""))
	f.hold("zdb-a-user", aVolume(2, 2))
	f.decommission("3-1", aNamespace(""))
	f.ssds(map[string]uint64{"a": 200 * mib, "b": 0})
	_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", strings.Replace(aNamespace(""), "user", "seq", 1)))
	if node.KindOf(err) != node.Transient {
		t.Errorf("in the other mode: %v", err)
	}
}

// A namespace stays where its data is.
func TestANamespaceIsNotMadeTwice(t *testing.T) {
	lost := func(f *world) { delete(f.homes, "2-1") }
	for name, c := range map[string]struct {
		happens func(f *world)
		kind    node.Kind // empty: the namespace is found in its place
	}{
		"its pool is full":                           {func(*world) {}, ""},
		"its zdb container is gone":                  {func(f *world) { f.Containers.Remove("zdb-a-user") }, ""},
		"the records don't say":                      {lost, ""},
		"nor does zdb answer":                        {func(f *world) { lost(f); f.Containers.Reboot() }, ""},
		"its pool is broken":                         {func(f *world) { f.Storage.Break("a", "read-only") }, node.Transient},
		"it is, and the records don't say":           {func(f *world) { lost(f); f.was["2-1"] = true; f.Storage.Break("a", "read-only") }, node.Transient},
		"its zdb is silent, and they don't":          {func(f *world) { lost(f); f.was["2-1"] = true; f.Containers.Reboot(); f.ZDB.Silence(1000) }, node.Transient},
		"zdbs are silent, and nobody was told of it": {func(f *world) { lost(f); f.Containers.Reboot(); f.ZDB.Silence(2) }, ""},
		"it has another mode": {func(f *world) {
			f.homes["2-1"] = home("zdb-a-seq")
		}, node.Exist},
	} {
		t.Run(name, func(t *testing.T) {
			f := two(t)
			f.wantOn("a")
			f.ssds(map[string]uint64{"a": 0, "b": 50 * gib})
			c.happens(f)
			if c.kind == "" {
				f.wantOn("a")
				return
			}
			_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
			if node.KindOf(err) != c.kind || len(f.ZDB.Namespaces(pathOf("zdb-b-user"))) != 0 {
				t.Errorf("error is %v, on the node %q", err, f.left())
			}
		})
	}
}

// A broken pool doesn't block a namespace that its user was never told of.
func TestANewOneNeedsNoBrokenPool(t *testing.T) {
	f := two(t)
	f.Storage.Break("a", "read-only")
	f.wantOn("b")
	f = two(t)
	f.ssds(map[string]uint64{"a": 0})
	f.Containers.Reboot()
	f.ZDB.Silence(1000)
	_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
	if node.KindOf(err) != node.Transient { // no zdb answers, the one on b neither
		t.Errorf("error is %v", err)
	}
	if left := f.left(); slices.Contains(left, "volume zdb-b-user") || !slices.Contains(left, "namespace zdb-a-user/1-1") {
		t.Errorf("on the node %q", left)
	}
}

// A volume that is gone for good is made again, as a user's volume is.
func TestAVolumeThatIsGone(t *testing.T) {
	f := two(t)
	f.wantOn("a")
	f.Storage.Lose("zdb-a-user")
	f.Forget()
	f.ssds(map[string]uint64{"a": 60 * gib})
	f.wantOn("a")
	if !slices.Contains(f.Changes(), fakenode.Call{Method: "Containers.Delete", ID: "zdb-a-user"}) || !f.Containers.Runs("zdb-a-user") {
		t.Errorf("the zdb container still has the volume that is gone: %q", f.Changes())
	}
	if f.ZDB.Ports()["zdb-a-user"] != 9900 {
		t.Error("it has another port")
	}
}
