package provisioner_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// lister is a Provisioner without Look.
type lister struct {
	ids []string
	err error
}

func (l lister) Provision(context.Context, *workload.Reservation) (json.RawMessage, error) {
	return nil, nil
}
func (l lister) Decommission(context.Context, *workload.Reservation) error { return nil }
func (l lister) Remove(context.Context, provisioner.Label) error           { return nil }
func (l lister) List(context.Context) ([]string, error)                    { return l.ids, l.err }

// watcher has Look too; its List is never called.
type watcher struct {
	lister
	seen map[provisioner.Label]provisioner.Seen
}

func (w watcher) Look(context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	return w.seen, w.err
}

func TestLook(t *testing.T) {
	broken := errors.New("cannot list")
	for name, tt := range map[string]struct {
		p    provisioner.Provisioner
		want map[provisioner.Label]provisioner.Seen
		err  error
	}{
		"a list says that nothing differs": {lister{ids: []string{"1-1", "2-1"}}, map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {}, {ID: "2-1"}: {}}, nil},
		"nothing is there":                 {lister{}, map[provisioner.Label]provisioner.Seen{}, nil},
		"a list that fails":                {lister{err: broken}, nil, broken},
		"what is watched is asked once":    {watcher{lister{err: nil}, map[provisioner.Label]provisioner.Seen{{ID: "1-1", Hash: workload.Hash{1}}: {Drift: "bridge is gone"}}}, map[provisioner.Label]provisioner.Seen{{ID: "1-1", Hash: workload.Hash{1}}: {Drift: "bridge is gone"}}, nil},
		"a look that fails":                {watcher{lister: lister{err: broken}}, nil, broken},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := provisioner.Look(t.Context(), tt.p)
			if !errors.Is(err, tt.err) || !maps.Equal(got, tt.want) {
				t.Errorf("gives %v, %v; want %v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}
