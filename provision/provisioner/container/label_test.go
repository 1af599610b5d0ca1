package container_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/looktest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// always is a past in which an older croft, without hashes, deployed every ID.
type always struct{}

func (always) Unlabelled(string) bool { return true }

// label sets the hash of all parts of container 2-1.
func (f *world) label(hash string) {
	box, image, member, layer := f.boxes()["2-1"], f.images()["2-1"], f.members()["2-1"], f.volumes()["2-1.layer"]
	box.Hash, image.Hash, member.Hash, layer.Hash = hash, hash, hash, hash
	f.Containers.Put(box)
	f.Images.Put(image)
	f.Networks.PutMember(member)
	f.Storage.Put(layer)
}

// labels are the hashes of all parts of container 2-1.
func (f *world) labels() string {
	return fmt.Sprintln(f.boxes()["2-1"].Hash, f.images()["2-1"].Hash, f.members()["2-1"].Hash, f.volumes()["2-1.layer"].Hash)
}

// all is labels where all parts have that hash.
func all(hash string) string { return fmt.Sprintln(hash, hash, hash, hash) }

func hexOf(t *testing.T, r *workload.Reservation) string {
	t.Helper()
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h.Hex()
}

func TestAContainerBelongsToItsHash(t *testing.T) {
	other := workload.Hash{1}.Hex()
	for name, tt := range map[string]struct {
		hash string
		past provisioner.Past
		ours bool
	}{
		"another's":                          {other, nil, false},
		"another's, with a past":             {other, always{}, false},
		"unlabelled":                         {"", nil, false},
		"unlabelled, made by an older croft": {"", always{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			r := f.reservation(aContainer(""))
			p := f.provisioner()
			if _, err := p.Provision(context.Background(), r); err != nil || f.labels() != all(hexOf(t, r)) {
				t.Fatalf("made with %s, %v", f.labels(), err)
			}
			f.label(tt.hash)
			f.past = tt.past
			p = f.provisioner()
			seen, err := p.Look(context.Background())
			if err == nil {
				looktest.Same(t, p, seen)
			}
			if l, one := only(t, seen, "2-1"); err != nil || l.Hash != provisioner.HashOf(tt.hash) || one.Drift != "" {
				t.Errorf("sees %+v, %v", seen, err)
			}
			_, prepareErr := p.Prepare(context.Background(), r)
			_, err = p.Provision(context.Background(), r)
			if tt.ours && (err != nil || prepareErr != nil || f.labels() != all(hexOf(t, r))) {
				t.Fatalf("adopted with %s, %v, %v", f.labels(), err, prepareErr)
			}
			if !tt.ours && (node.KindOf(err) != node.Exist || node.KindOf(prepareErr) != node.Exist || f.labels() != all(tt.hash)) {
				t.Fatalf("not adopted: %v, %v, there is %s", err, prepareErr, f.labels())
			}
			made := f.left()
			for what, end := range map[string]func(context.Context, *workload.Reservation) error{"stop": p.Stop, "decommission": p.Decommission} {
				if err := end(context.Background(), r); err != nil || !tt.ours && !slices.Equal(f.left(), made) {
					t.Errorf("%s: %v, left %v of %v", what, err, f.left(), made)
				}
			}
			if tt.ours && len(f.left()) != 0 {
				t.Errorf("decommissioned, and left %v", f.left())
			}
			made = f.left()
			if err := p.Remove(context.Background(), provisioner.Label{ID: "2-1", Hash: workload.Hash{2}}); err != nil || !slices.Equal(f.left(), made) {
				t.Errorf("as another orphan: %v, left %v of %v", err, f.left(), made)
			}
			if err := p.Remove(context.Background(), provisioner.LabelOf("2-1", tt.hash)); err != nil || len(f.left()) != 0 {
				t.Errorf("as an orphan: %v, left %v", err, f.left())
			}
		})
	}
}

// A single part of another reservation makes Provision fail with Exist, and the parts
// made beside it are taken back.
func TestAPartThatIsAnothers(t *testing.T) {
	other := workload.Hash{1}.Hex()
	for name, part := range map[string]func(f *world){
		"its image":     func(f *world) { f.Images.Put(node.Image{Label: "2-1", User: f.user, Hash: other}) },
		"its layer":     func(f *world) { f.Storage.Put(layerOf(other)) },
		"the container": func(f *world) { f.Containers.Put(node.ContainerSpec{ID: "2-1", User: f.user, Hash: other}) },
		"its place":     func(f *world) { f.putMember(other) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			part(f)
			before := f.labels()
			p, r := f.provisioner(), f.reservation(aContainer(""))
			if _, err := p.Provision(context.Background(), r); node.KindOf(err) != node.Exist {
				t.Fatalf("error is %v", err)
			}
			if name == "its place" {
				if len(f.boxes()) != 0 || f.members()["2-1"].Hash != other {
					t.Errorf("there is %s", f.labels())
				}
				// Without a container, Decommission gives the place back whatever its hash.
				before = all("")
			}
			if err := p.Decommission(context.Background(), r); err != nil || f.labels() != before {
				t.Errorf("decommission: %v, there is %swant %s", err, f.labels(), before)
			}
		})
	}
}

// The parts of one ID may be of two reservations: Look returns both, and removing one's
// parts leaves the other's. A part without a hash belongs to the others of its ID.
func TestPartsOfTwoReservations(t *testing.T) {
	const gone, empty = "the container is gone", ""
	a, b := workload.Hash{1}.Hex(), workload.Hash{2}.Hex()
	for name, tt := range map[string]struct {
		box, image, member, layer string
		want                      map[string]string
		left                      string // without b's parts
	}{
		"all are one's":           {a, a, a, a, map[string]string{a: empty}, fmt.Sprintln(a, a, a, a)},
		"the layer is another's":  {a, a, a, b, map[string]string{a: "the container's writable layer is gone", b: gone}, fmt.Sprintln(a, a, a, "")},
		"the image is another's":  {a, b, a, a, map[string]string{a: empty, b: gone}, fmt.Sprintln(a, "", a, a)},
		"the box is another's":    {b, a, b, a, map[string]string{a: gone, b: "the container's writable layer is gone"}, fmt.Sprintln("", a, "", a)},
		"the place is another's":  {b, b, a, b, map[string]string{b: empty}, fmt.Sprintln("", "", a, "")},
		"an image without a hash": {a, "", a, a, map[string]string{a: empty}, fmt.Sprintln(a, "", a, a)},
		"a layer without a hash":  {a, a, a, "", map[string]string{a: empty}, fmt.Sprintln(a, a, a, "")},
		"a box without a hash":    {"", a, "", a, map[string]string{"": empty}, fmt.Sprintln("", a, "", a)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			f.Containers.Put(node.ContainerSpec{ID: "2-1", User: f.user, Hash: tt.box})
			f.Images.Put(node.Image{Label: "2-1", User: f.user, Hash: tt.image})
			f.putMember(tt.member)
			f.Storage.Put(layerOf(tt.layer))
			p := f.provisioner()
			seen, err := p.Look(context.Background())
			if err == nil {
				looktest.Same(t, p, seen)
			}
			if err != nil || len(seen) != len(tt.want) {
				t.Fatalf("saw %v, %v, want %v", seen, err, tt.want)
			}
			for hash, drift := range tt.want {
				one, there := seen[provisioner.LabelOf("2-1", hash)]
				if !there || !strings.HasPrefix(one.Drift, drift) || drift == empty && one.Drift != "" {
					t.Errorf("saw %v, want %q of %q", seen, drift, hash)
				}
			}
			if err := p.Remove(context.Background(), provisioner.LabelOf("2-1", b)); err != nil || f.labels() != tt.left {
				t.Errorf("remove: %v, left %swant %s", err, f.labels(), tt.left)
			}
		})
	}
}

// A stopped container is made again on its old layer.
func TestStopKeepsWritableLayer(t *testing.T) {
	f := newWorld(t)
	p, r := f.provisioner(), f.reservation(aContainer(""))
	first, err := p.Provision(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	whole := f.left()
	for range 2 {
		if err := p.Stop(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.boxes()) != 0 || len(f.members()) != 0 || !f.images()["2-1"].Ready || f.volumes()["2-1.layer"].Name == "" {
		t.Errorf("stopped, and there is %v", f.left())
	}
	f.Forget()
	again, err := p.Provision(context.Background(), r)
	if err != nil || string(again) != string(first) || !slices.Equal(f.left(), whole) || slices.Contains(f.calls(), "Storage.CreateFilesystem") {
		t.Errorf("started again: %s, %v, on the node %v, by %v", again, err, f.left(), f.calls())
	}
	for _, name := range []string{"Containers.Delete", "Networks.Leave"} {
		f.FailNext(name, 1, node.Errorf(node.Transient, "no answer"))
		if err := p.Stop(context.Background(), r); node.KindOf(err) != node.Transient {
			t.Errorf("%s fails: %v", name, err)
		}
	}
}

// An older croft's volume has no hash, but still belongs to its reservation.
func TestAVolumeOfAnOlderCroftIsMounted(t *testing.T) {
	f := newWorld(t)
	f.past = always{}
	f.Storage.Put(node.Filesystem{Name: "1-1", Path: "/pools/a/1-1"})
	r := f.reservation(aContainer(`,"mounts":[{"volume_id":"1-1","mountpoint":"/data"}]`))
	if _, err := f.provisioner().Provision(context.Background(), r); err != nil || len(f.boxes()["2-1"].Mounts) != 1 {
		t.Fatalf("%v, mounts are %+v", err, f.boxes()["2-1"].Mounts)
	}
}
