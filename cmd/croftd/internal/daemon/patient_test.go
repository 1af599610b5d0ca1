package daemon

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

type answering struct{ err error }

func (a answering) Admit(context.Context, *workload.Reservation, []store.Record) error { return a.err }

// A broken pool isn't a full one; one of another type changes nothing.
func TestABrokenPoolIsNotAFullOne(t *testing.T) {
	full := node.Errorf(node.NoSpace, "cannot admit 1-1: not enough SSD space")
	ssd, hdd := node.BrokenPool{Name: "ssd0", DiskType: workload.SSD, Cause: "x"}, node.BrokenPool{Name: "hdd0", DiskType: workload.HDD, Cause: "x"}
	for name, tt := range map[string]struct {
		err    error
		broken []node.BrokenPool
		want   node.Kind
	}{
		"room":                        {nil, []node.BrokenPool{ssd}, ""},
		"full, all whole":             {full, nil, node.NoSpace},
		"full, its type broken":       {full, []node.BrokenPool{hdd, ssd}, node.Transient},
		"full, another type broken":   {full, []node.BrokenPool{hdd}, node.NoSpace},
		"full, of unknown type":       {full, []node.BrokenPool{{Name: "x"}}, node.Transient},
		"refused, whatever is broken": {node.Errorf(node.Refused, "cannot"), []node.BrokenPool{ssd}, node.Refused},
	} {
		p := patient{answering{tt.err}, func(context.Context) (node.StorageStatus, error) {
			return node.StorageStatus{BrokenPools: tt.broken}, nil
		}}
		r := &workload.Reservation{ID: "1-1", Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`)}
		if got := node.KindOf(p.Admit(t.Context(), r, nil)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
