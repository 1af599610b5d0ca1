package volume_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

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

// storage is a fake storage module that keeps file systems in memory.
type storage struct {
	have map[string]node.FilesystemSpec
	fail error
}

func (s *storage) CreateFilesystem(_ context.Context, spec node.FilesystemSpec) (node.Filesystem, error) {
	if s.fail != nil {
		return node.Filesystem{}, s.fail
	}
	if old, ok := s.have[spec.Name]; ok {
		if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check("create", old.Hash); err != nil {
			return node.Filesystem{}, err
		}
		if old.Size != spec.Size || old.DiskType != spec.DiskType {
			return node.Filesystem{}, node.Errorf(node.Exist, "one of that name has another size or type")
		}
	}
	s.have[spec.Name] = spec
	return node.Filesystem{Name: spec.Name, Size: spec.Size, DiskType: spec.DiskType, Hash: spec.Hash}, nil
}

func (s *storage) InspectFilesystem(_ context.Context, name string) (node.Filesystem, error) {
	spec, ok := s.have[name]
	if s.fail == nil && !ok {
		return node.Filesystem{}, node.Errorf(node.NotExist, "there is none")
	}
	return node.Filesystem{Name: name, Hash: spec.Hash}, s.fail
}

func (s *storage) ReleaseFilesystem(_ context.Context, name string) error {
	if s.fail != nil {
		return s.fail
	}
	if _, ok := s.have[name]; !ok {
		return node.Errorf(node.NotExist, "there is none")
	}
	delete(s.have, name)
	return nil
}

func (s *storage) ListFilesystems(context.Context) ([]node.Filesystem, error) {
	var out []node.Filesystem
	for name, spec := range s.have {
		out = append(out, node.Filesystem{Name: name, Hash: spec.Hash})
	}
	return out, s.fail
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
			s := &storage{have: map[string]node.FilesystemSpec{"1-1": {Name: "1-1", Size: 1 << 30, DiskType: workload.SSD, Hash: tt.hash}}}
			p := volume.New(volume.Config{Storage: s, Containers: inUse(nil), Past: tt.past})
			before := s.have["1-1"]
			_, err := p.Provision(context.Background(), r)
			if tt.ours && (err != nil || s.have["1-1"].Hash != hashOf(t, r)) || !tt.ours && (node.KindOf(err) != node.Exist || s.have["1-1"] != before) {
				t.Errorf("provision: %v, there is %+v", err, s.have)
			}
			s.have["1-1"] = before
			seen, err := p.Look(context.Background())
			if _, there := seen[provisioner.LabelOf("1-1", tt.hash)]; err != nil || len(seen) != 1 || !there {
				t.Errorf("look: %+v, %v", seen, err)
			}
			if err := p.Decommission(context.Background(), r); err != nil || (len(s.have) == 0) != tt.ours {
				t.Errorf("decommission: %v, there is %+v", err, s.have)
			}
			s.have["1-1"] = before
			if err := p.Remove(context.Background(), provisioner.Label{ID: "1-1", Hash: workload.Hash{2}}); err != nil || len(s.have) != 1 {
				t.Errorf("as an orphan of another hash: %v, there is %+v", err, s.have)
			}
			if err := p.Remove(context.Background(), provisioner.LabelOf("1-1", tt.hash)); err != nil || len(s.have) != 0 {
				t.Errorf("as an orphan: %v, there is %+v", err, s.have)
			}
		})
	}
}

func TestProvisionMakesAVolumeOfItsSizeAndType(t *testing.T) {
	s := &storage{have: map[string]node.FilesystemSpec{}}
	p := volume.New(volume.Config{Storage: s, Containers: inUse(nil)})
	for _, tt := range []struct {
		id, data string
		want     node.FilesystemSpec
	}{
		{"1-1", `{"size":1,"type":"SSD"}`, node.FilesystemSpec{Name: "1-1", Size: 1 << 30, DiskType: workload.SSD}},
		{"2-1", `{"size":5,"type":"HDD"}`, node.FilesystemSpec{Name: "2-1", Size: 5 << 30, DiskType: workload.HDD}},
	} {
		for range 2 { // it is idempotent
			data, err := p.Provision(context.Background(), reservation(tt.id, tt.data))
			if err != nil || string(data) != `{"volume_id":"`+tt.id+`"}` {
				t.Fatalf("provision gives %s, %v", data, err)
			}
		}
		tt.want.Hash = hashOf(t, reservation(tt.id, tt.data))
		if s.have[tt.id] != tt.want {
			t.Fatalf("storage was asked for %+v, want %+v", s.have[tt.id], tt.want)
		}
	}
	if len(s.have) != 2 {
		t.Fatalf("%d volumes, want 2", len(s.have))
	}
}

// The seed made a volume of 1 GiB when asked for 17179869185 GiB.
func TestSeedDefect20SizesDoNotWrapAround(t *testing.T) {
	s := &storage{have: map[string]node.FilesystemSpec{}}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Just(uint64(17179869185)), rapid.Just(uint64(0)), rapid.Just(uint64(math.MaxUint64)),
			rapid.Just(uint64(1)<<33), rapid.Uint64(), rapid.Uint64Range(1, 1<<20)).Draw(t, "size")
		data, _ := json.Marshal(workload.Volume{Size: size, Type: workload.SSD})
		clear(s.have)
		_, err := volume.New(volume.Config{Storage: s, Containers: inUse(nil)}).Provision(context.Background(), reservation("1-1", string(data)))
		if size >= 1 && size <= math.MaxInt64>>30 {
			if err != nil || s.have["1-1"].Size>>30 != size {
				t.Fatalf("%d GiB gives %d bytes, %v", size, s.have["1-1"].Size, err)
			}
			return
		}
		if node.KindOf(err) != node.Invalid || len(s.have) != 0 {
			t.Fatalf("%d GiB gives %v, want it refused as invalid", size, err)
		}
	})
}

func TestProvisionRefusesUnreadableData(t *testing.T) {
	for _, data := range []string{``, `null`, `[]`, `{"size":-1,"type":"SSD"}`, `{"size":1}`, `{"size":1,"type":"TAPE"}`, `{"type":"SSD"}`} {
		s := &storage{have: map[string]node.FilesystemSpec{}}
		_, err := volume.New(volume.Config{Storage: s, Containers: inUse(nil)}).Provision(context.Background(), reservation("1-1", data))
		if node.KindOf(err) != node.Invalid || len(s.have) != 0 {
			t.Errorf("data %s gives %v, want it invalid and nothing made", data, err)
		}
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, kind := range []node.Kind{node.NoSpace, node.Exist, node.Transient, node.Unknown, node.Busy} {
		p := volume.New(volume.Config{Storage: &storage{have: map[string]node.FilesystemSpec{}, fail: node.Errorf(kind, "cannot")}, Containers: inUse(nil)})
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
	s := &storage{have: map[string]node.FilesystemSpec{"1-1": {Name: "1-1", Size: 7, DiskType: workload.HDD}}}
	_, err := volume.New(volume.Config{Storage: s, Containers: inUse(nil)}).Provision(context.Background(), reservation("1-1", `{"size":1,"type":"SSD"}`))
	if node.KindOf(err) != node.Exist || s.have["1-1"].Size != 7 {
		t.Fatalf("gives %v and leaves %+v", err, s.have["1-1"])
	}
}

func TestDecommissionOfMissingWorkload(t *testing.T) {
	r := reservation("1-1", `{"size":1,"type":"SSD"}`)
	s := &storage{have: map[string]node.FilesystemSpec{"1-1": {Hash: hashOf(t, r)}, "2-1": {}}}
	p := volume.New(volume.Config{Storage: s, Containers: inUse(nil)})
	for range 2 {
		if err := p.Decommission(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if err := p.Remove(context.Background(), provisioner.Label{ID: "1-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, other := s.have["2-1"]; !other || len(s.have) != 1 {
		t.Fatalf("leaves %v, want 2-1 only", s.have)
	}
}

func TestListNamesReservationsOnly(t *testing.T) {
	s := &storage{have: map[string]node.FilesystemSpec{"1-1": {}, "20-3": {}, "01-1": {}, "log": {}, "zdb-1-1": {}, "zdb-ssd0-user": {}, "zdb-ssd0-user.layer": {}, "2-1.layer": {}, "": {}}}
	ids, err := volume.New(volume.Config{Storage: s, Containers: inUse(nil)}).List(context.Background())
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, []string{"1-1", "20-3"}) {
		t.Fatalf("lists %v, %v", ids, err)
	}
}

// inUse is a fake container module whose container 2-1 mounts these volumes.
type inUse []string

func (u inUse) List(context.Context) ([]node.ContainerInfo, error) {
	return []node.ContainerInfo{{ID: "2-1", Volumes: u}}, nil
}

// unknown is a fake container module that doesn't answer.
type unknown struct{}

func (unknown) List(context.Context) ([]node.ContainerInfo, error) {
	return nil, node.Errorf(node.Transient, "no answer")
}

func TestAVolumeInUseStays(t *testing.T) {
	s := &storage{have: map[string]node.FilesystemSpec{"1-1": {Name: "1-1"}}}
	for name, users := range map[string]volume.Containers{"mounted": inUse{"1-1"}, "nobody knows": unknown{}} {
		err := volume.New(volume.Config{Storage: s, Containers: users}).Remove(context.Background(), provisioner.Label{ID: "1-1"})
		if kind := node.KindOf(err); kind != node.Busy && kind != node.Transient || len(s.have) != 1 {
			t.Errorf("%s: error is %v, storage has %v", name, err, s.have)
		}
	}
}
