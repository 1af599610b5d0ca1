package provisioner_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// past are the IDs of the workloads that an older croft deployed.
type past []string

func (p past) Unlabelled(id string) bool {
	for _, one := range p {
		if one == id {
			return true
		}
	}
	return false
}

func TestClaim(t *testing.T) {
	r := &workload.Reservation{ID: "1-1", User: "U", Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1}`), Version: workload.V2, Created: time.Now()}
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	other := workload.Hash{1}.Hex()
	for name, tt := range map[string]struct {
		r                       *workload.Reservation
		past                    provisioner.Past
		own, theirs, unlabelled bool
	}{
		"without a past":         {r, nil, true, false, false},
		"labelled in the past":   {r, past{"2-1"}, true, false, false},
		"unlabelled in the past": {r, past{"1-1"}, true, false, true},
	} {
		c, err := provisioner.ClaimOf(tt.r, tt.past)
		if err != nil || c.Takes(h.Hex()) != tt.own || c.Takes(other) != tt.theirs || c.Takes("") != tt.unlabelled {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, tt := range map[string]struct {
		of                                  workload.Hash
		own, theirs, unlabelled, unreadable bool
	}{
		"of a label":                  {h, true, false, false, false},
		"of a label that has no hash": {workload.Hash{}, false, false, true, true},
	} {
		c := provisioner.Label{ID: "1-1", Hash: tt.of}.Claim()
		if c.Takes(h.Hex()) != tt.own || c.Takes(other) != tt.theirs || c.Takes("") != tt.unlabelled || c.Takes("x") != tt.unreadable {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if _, err := provisioner.ClaimOf(&workload.Reservation{ID: "1-1", Data: json.RawMessage(`{`), Version: workload.V2}, nil); node.KindOf(err) != node.Invalid {
		t.Errorf("of what has no hash: %v", err)
	}
	if provisioner.HashOf(h.Hex()) != h || provisioner.HashOf("") != (workload.Hash{}) || provisioner.HashOf("x") != (workload.Hash{}) {
		t.Error("the hash of a label is another one")
	}
}
