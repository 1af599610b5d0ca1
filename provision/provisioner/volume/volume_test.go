package volume_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/internal/testing/looktest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/volume"
)

var (
	_ provisioner.Provisioner = (*volume.Provisioner)(nil)
	_ provisioner.DataHolder  = (*volume.Provisioner)(nil)
	_ provisioner.Watched     = (*volume.Provisioner)(nil)
)

// newNode is a node with room for volumes of any size, and with these volumes.
func newNode(t *testing.T, volumes ...node.Filesystem) *fakenode.Node {
	t.Helper()
	n := fakenode.New(t,
		node.Pool{Name: "ssd0", DiskType: workload.SSD, Offered: math.MaxUint64},
		node.Pool{Name: "hdd0", DiskType: workload.HDD, Offered: math.MaxUint64},
	)
	n.Storage.Put(volumes...)
	return n
}

// provisionerOf provisions the volumes of a node.
func provisionerOf(t *testing.T, n *fakenode.Node, past provisioner.Past) *volume.Provisioner {
	t.Helper()
	return volume.New(volume.Config{Storage: n.Storage.Serve(t), Containers: n.Containers.Serve(t), Past: past})
}

func reservation(id, data string) *workload.Reservation {
	return &workload.Reservation{ID: id, Type: workload.TypeVolume, Data: json.RawMessage(data)}
}

func hashOf(t *testing.T, r *workload.Reservation) string {
	t.Helper()
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h.Hex()
}

// always is a past in which an older croft, without hashes, deployed every ID.
type always struct{}

func (always) Unlabelled(string) bool { return true }

// A volume with the reservation's ID and another hash, or none, is safe from an
// explorer that gives its ID to another reservation.
func TestAVolumeBelongsToItsHash(t *testing.T) {
	r := reservation("1-1", `{"size":1,"type":"SSD"}`)
	other := workload.Hash{1}.Hex()
	for name, tt := range map[string]struct {
		hash string
		past provisioner.Past
		ours bool
	}{
		"ours":                               {hashOf(t, r), nil, true},
		"another's":                          {other, nil, false},
		"another's, with a past":             {other, always{}, false},
		"unlabelled":                         {"", nil, false},
		"unlabelled, made by an older croft": {"", always{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, node.Filesystem{Name: "1-1", Size: 1 << 30, DiskType: workload.SSD, Hash: tt.hash})
			have := n.Storage.Filesystems
			p := provisionerOf(t, n, tt.past)
			before := have()["1-1"]
			_, err := p.Provision(context.Background(), r)
			if tt.ours && (err != nil || have()["1-1"].Hash != hashOf(t, r)) || !tt.ours && (node.KindOf(err) != node.Exist || have()["1-1"] != before) {
				t.Errorf("provision: %v, there is %+v", err, have())
			}
			n.Storage.Put(before)
			seen, err := p.Look(context.Background())
			if err == nil {
				looktest.Same(t, p, seen)
			}
			if _, there := seen[provisioner.LabelOf("1-1", tt.hash)]; err != nil || len(seen) != 1 || !there {
				t.Errorf("look: %+v, %v", seen, err)
			}
			if err := p.Decommission(context.Background(), r); err != nil || (len(have()) == 0) != tt.ours {
				t.Errorf("decommission: %v, there is %+v", err, have())
			}
			n.Storage.Put(before)
			if err := p.Remove(context.Background(), provisioner.Label{ID: "1-1", Hash: workload.Hash{2}}); err != nil || len(have()) != 1 {
				t.Errorf("as an orphan of another hash: %v, there is %+v", err, have())
			}
			if err := p.Remove(context.Background(), provisioner.LabelOf("1-1", tt.hash)); err != nil || len(have()) != 0 {
				t.Errorf("as an orphan: %v, there is %+v", err, have())
			}
		})
	}
}

func TestProvisionMakesAVolumeOfItsSizeAndType(t *testing.T) {
	n := newNode(t)
	p := provisionerOf(t, n, nil)
	for _, tt := range []struct {
		id, data string
		want     node.Filesystem
	}{
		{"1-1", `{"size":1,"type":"SSD"}`, node.Filesystem{Name: "1-1", Size: 1 << 30, DiskType: workload.SSD, Pool: "ssd0", Path: "/pools/ssd0/1-1"}},
		{"2-1", `{"size":5,"type":"HDD"}`, node.Filesystem{Name: "2-1", Size: 5 << 30, DiskType: workload.HDD, Pool: "hdd0", Path: "/pools/hdd0/2-1"}},
	} {
		for range 2 { // it is idempotent
			data, err := p.Provision(context.Background(), reservation(tt.id, tt.data))
			if err != nil || string(data) != `{"volume_id":"`+tt.id+`"}` {
				t.Fatalf("provision gives %s, %v", data, err)
			}
		}
		tt.want.Hash = hashOf(t, reservation(tt.id, tt.data))
		if got := n.Storage.Filesystems()[tt.id]; got != tt.want {
			t.Fatalf("storage has %+v, want %+v", got, tt.want)
		}
	}
	if have := n.Storage.Filesystems(); len(have) != 2 {
		t.Fatalf("%d volumes, want 2", len(have))
	}
}

// The seed made a volume of 1 GiB when asked for 17179869185 GiB.
func TestSeedDefect20SizesDoNotWrapAround(t *testing.T) {
	n := newNode(t)
	p := provisionerOf(t, n, nil)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Just(uint64(17179869185)), rapid.Just(uint64(0)), rapid.Just(uint64(math.MaxUint64)),
			rapid.Just(uint64(1)<<33), rapid.Uint64(), rapid.Uint64Range(1, 1<<20)).Draw(t, "size")
		data, _ := json.Marshal(workload.Volume{Size: size, Type: workload.SSD})
		n.Storage.Clear()
		_, err := p.Provision(context.Background(), reservation("1-1", string(data)))
		have := n.Storage.Filesystems()
		if size >= 1 && size <= math.MaxInt64>>30 {
			if err != nil || have["1-1"].Size>>30 != size {
				t.Fatalf("%d GiB gives %d bytes, %v", size, have["1-1"].Size, err)
			}
			return
		}
		if node.KindOf(err) != node.Invalid || len(have) != 0 {
			t.Fatalf("%d GiB gives %v, want it refused as invalid", size, err)
		}
	})
}

func TestProvisionRefusesUnreadableData(t *testing.T) {
	for _, data := range []string{``, `null`, `[]`, `{"size":-1,"type":"SSD"}`, `{"size":1}`, `{"size":1,"type":"TAPE"}`, `{"type":"SSD"}`} {
		n := newNode(t)
		_, err := provisionerOf(t, n, nil).Provision(context.Background(), reservation("1-1", data))
		if node.KindOf(err) != node.Invalid || len(n.Storage.Filesystems()) != 0 || len(n.Changes()) != 0 {
			t.Errorf("data %s gives %v, want it invalid and nothing made", data, err)
		}
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, kind := range []node.Kind{node.NoSpace, node.Exist, node.Transient, node.Unknown, node.Busy} {
		n := newNode(t)
		for _, method := range []string{"CreateFilesystem", "InspectFilesystem", "ReleaseFilesystem", "ListFilesystems"} {
			n.Fail("Storage."+method, node.Errorf(kind, "cannot"))
		}
		p := provisionerOf(t, n, nil)
		r := reservation("1-1", `{"size":1,"type":"SSD"}`)
		if _, err := p.Provision(context.Background(), r); node.KindOf(err) != kind {
			t.Errorf("provision makes %s of %s", node.KindOf(err), kind)
		}
		if err := p.Decommission(context.Background(), r); node.KindOf(err) != kind {
			t.Errorf("decommission makes %s of %s", node.KindOf(err), kind)
		}
		if _, err := p.List(context.Background()); node.KindOf(err) != kind {
			t.Errorf("list makes %s of %s", node.KindOf(err), kind)
		}
	}
}

func TestAnExistingVolumeOfAnotherSizeIsLeftAlone(t *testing.T) {
	r := reservation("1-1", `{"size":1,"type":"SSD"}`)
	n := newNode(t, node.Filesystem{Name: "1-1", Size: 7, DiskType: workload.HDD, Hash: hashOf(t, r)})
	_, err := provisionerOf(t, n, nil).Provision(context.Background(), r)
	if have := n.Storage.Filesystems()["1-1"]; node.KindOf(err) != node.Exist || have.Size != 7 {
		t.Fatalf("gives %v and leaves %+v", err, have)
	}
}

func TestDecommissionOfMissingWorkload(t *testing.T) {
	r := reservation("1-1", `{"size":1,"type":"SSD"}`)
	n := newNode(t, node.Filesystem{Name: "1-1", Hash: hashOf(t, r)}, node.Filesystem{Name: "2-1"})
	p := provisionerOf(t, n, nil)
	for range 2 {
		if err := p.Decommission(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if err := p.Remove(context.Background(), provisioner.Label{ID: "1-1"}); err != nil {
			t.Fatal(err)
		}
	}
	have := n.Storage.Filesystems()
	if _, other := have["2-1"]; !other || len(have) != 1 {
		t.Fatalf("leaves %v, want 2-1 only", have)
	}
}

func TestListNamesReservationsOnly(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"1-1", "20-3", "01-1", "log", "zdb-1-1", "zdb-ssd0-user", "zdb-ssd0-user.layer", "2-1.layer", ""} {
		n.Storage.Put(node.Filesystem{Name: name})
	}
	ids, err := provisionerOf(t, n, nil).List(context.Background())
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, []string{"1-1", "20-3"}) {
		t.Fatalf("lists %v, %v", ids, err)
	}
}

func TestAVolumeInUseStays(t *testing.T) {
	for name, use := range map[string]func(n *fakenode.Node){
		"mounted": func(n *fakenode.Node) {
			n.Containers.Put(node.ContainerSpec{ID: "2-1", Mounts: []node.MountSpec{{Volume: "1-1"}}})
		},
		"nobody knows": func(n *fakenode.Node) { n.Fail("Containers.List", node.Errorf(node.Transient, "no answer")) },
	} {
		n := newNode(t, node.Filesystem{Name: "1-1"})
		use(n)
		err := provisionerOf(t, n, nil).Remove(context.Background(), provisioner.Label{ID: "1-1"})
		if kind, have := node.KindOf(err), n.Storage.Filesystems(); kind != node.Busy && kind != node.Transient || len(have) != 1 {
			t.Errorf("%s: error is %v, storage has %v", name, err, have)
		}
	}
}
