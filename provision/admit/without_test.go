package admit_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

func TestAnOperatorDemandsLess(t *testing.T) {
	a, err := admit.New(admit.Config{
		Policy: admit.Policy{Without: []string{"read_only", "non_root"}},
		Demand: func(*workload.Reservation) (provisioner.Demand, error) { return provisioner.Demand{}, nil },
		Offer:  func(context.Context) (admit.Offer, error) { return admit.Offer{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for more, lacks := range map[string]string{
		``:                                  "read_only",
		`,"non_root":true`:                  "read_only",
		`,"read_only":true`:                 "non_root",
		`,"read_only":true,"non_root":true`: "",
		`,"read_only":true,"non_root":true,"no_capabilities":true`: "",
	} {
		r := &workload.Reservation{ID: "1-1", Type: workload.TypeContainer, Data: json.RawMessage(
			`{"flist":"docker://example.com/a","network":{"network_id":"net","ips":["10.1.1.2"]},"capacity":{"cpu":1,"memory":64}` + more + `}`)}
		err := a.Admit(r, store.Usage{}, store.Usage{}, admit.Offer{})
		switch {
		case lacks == "" && err != nil:
			t.Errorf("%q: %v", more, err)
		case lacks != "" && (node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "data."+lacks+" is false")):
			t.Errorf("%q: %v", more, err)
		}
	}
	other := &workload.Reservation{ID: "1-2", Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`)}
	if err := a.Admit(other, store.Usage{}, store.Usage{}, admit.Offer{}); err != nil {
		t.Errorf("a volume: %v", err)
	}
}

// TestModulesThatAreSwitchedOff: what needs one is refused, whatever room there is.
func TestModulesThatAreSwitchedOff(t *testing.T) {
	a, err := admit.New(admit.Config{
		Demand: func(*workload.Reservation) (provisioner.Demand, error) { return provisioner.Demand{}, nil },
		Offer:  func(context.Context) (admit.Offer, error) { return admit.Offer{}, nil },
		Off: func(t workload.Type) string {
			if t == workload.TypeZDB {
				return "zdb"
			}
			return ""
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// What is on the node, and has no record any more, is wanted back.
	held := admit.Offer{Held: map[string]provisioner.Demand{"1-1": {}}}
	if err := a.Admit(&workload.Reservation{ID: "1-1", Type: workload.TypeZDB}, store.Usage{}, store.Usage{}, held); err != nil {
		t.Errorf("one that comes back: %v", err)
	}
	for _, kind := range []workload.Type{workload.TypeZDB, workload.TypeVolume, workload.TypeDebug} {
		err := a.Admit(&workload.Reservation{ID: "1-1", Type: kind}, store.Usage{}, store.Usage{}, admit.Offer{})
		if refused := node.KindOf(err) == node.Refused && strings.Contains(err.Error(), "the module zdb"); refused != (kind == workload.TypeZDB) || !refused && err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
