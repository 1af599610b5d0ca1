package zdb_test

import (
	"context"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

// always is a past in which an older croft, without hashes, deployed every ID.
type always struct{}

func (always) Unlabelled(string) bool { return true }

// hash is the hash of reservation 2-1 with that data.
func (f *world) hash(data string) string {
	f.t.Helper()
	h, err := f.reservation("2-1", data).Hash()
	if err != nil {
		f.t.Fatal(err)
	}
	return h.Hex()
}

func TestANamespaceBelongsToItsHash(t *testing.T) {
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
		for _, known := range []bool{true, false} {
			f := newWorld(t)
			data := aNamespace("")
			f.provision("2-1", data)
			f.provision("3-1", aNamespace(""))
			change(func(n *node.ZDBNamespaceSpec) { n.Hash, n.Size = tt.hash, gib })(f)
			f.Storage.Change(box, func(v *node.Filesystem) { v.Size = aVolume(1, 2) })
			f.past = tt.past
			r, p := f.reservation("2-1", data), f.provisioner()
			if f.homes["2-1"] = (zdb.Home{Container: box, Reservation: r}); !known {
				delete(f.homes, "2-1") // the records were lost
			}
			seen, err := p.Look(context.Background())
			_, one := seen[provisioner.LabelOf("2-1", tt.hash)]
			_, two := seen[provisioner.LabelOf("3-1", f.hash(data))]
			if err != nil || len(seen) != 2 || !one || !two {
				t.Errorf("%s, known %t: saw %v, %v", name, known, seen, err)
			}
			made, before := f.left(), f.namespace(box, "2-1")
			_, err = p.Provision(context.Background(), r)
			got := f.namespace(box, "2-1")
			if tt.ours && (err != nil || got.Hash != f.hash(data) || got.Size != 2*gib || f.sizeOf(box) != aVolume(2, 2)) {
				t.Errorf("%s, known %t: adopted as %+v, %v", name, known, got, err)
			}
			if !tt.ours && (node.KindOf(err) != node.Exist || got != before || f.sizeOf(box) != aVolume(1, 2)) {
				t.Errorf("%s, known %t: not adopted, and it is %+v, %v", name, known, got, err)
			}
			f.ZDB.PutNamespace(pathOf(box), before)
			if err := p.Stop(context.Background(), r); err != nil || (f.namespace(box, "2-1").Password != "") != tt.ours {
				t.Errorf("%s, known %t: stopped, and it is %+v, %v", name, known, f.namespace(box, "2-1"), err)
			}
			f.ZDB.PutNamespace(pathOf(box), before)
			err = p.Decommission(context.Background(), r)
			if _, there := f.ZDB.Namespaces(pathOf(box))["2-1"]; err != nil || there == tt.ours || !tt.ours && len(f.left()) != len(made) {
				t.Errorf("%s, known %t: decommissioned, and left %v of %v, %v", name, known, f.left(), made, err)
			}
			f.ZDB.PutNamespace(pathOf(box), before)
			err = p.Remove(context.Background(), provisioner.Label{ID: "2-1", Hash: workload.Hash{2}})
			if _, there := f.ZDB.Namespaces(pathOf(box))["2-1"]; err != nil || !there {
				t.Errorf("%s, known %t: as another orphan: %v, left %v", name, known, err, f.left())
			}
			err = p.Remove(context.Background(), provisioner.LabelOf("2-1", tt.hash))
			if _, there := f.ZDB.Namespaces(pathOf(box))["2-1"]; err != nil || there {
				t.Errorf("%s, known %t: as an orphan: %v, left %v", name, known, err, f.left())
			}
		}
	}
}
