package seed

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
	"github.com/croft-edge/croft/provision/store"
)

// ZDBPlacement tells from the node's own records in which containers 0-db namespaces live.
// It is a ZDBMapping that writes nothing to the disk itself.
type ZDBPlacement struct {
	records store.Records

	mu  sync.Mutex
	set map[string]string
}

// NewZDBMapping makes a ZDBPlacement of those records.
func NewZDBMapping(records store.Records) *ZDBPlacement {
	return &ZDBPlacement{records: records, set: map[string]string{}}
}

// Get implements ZDBMapping: it returns the container of a namespace on this node, from its
// record or, when that doesn't tell it, from the last Set.
func (z *ZDBPlacement) Get(namespace string) (string, bool) {
	rec, err := z.records.Record(namespace)
	z.mu.Lock()
	defer z.mu.Unlock()
	if node.KindOf(err) == node.NotExist || err == nil && !isZDB(rec) {
		delete(z.set, namespace)
		return "", false
	}
	if err == nil {
		if container := resultOf(rec).Container; container != "" {
			return container, true
		}
	}
	container, ok := z.set[namespace]
	return container, ok
}

// Set implements ZDBMapping. The value is kept while the process runs and the namespace has a record.
func (z *ZDBPlacement) Set(namespace, container string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.set[namespace] = container
}

// All returns the homes of all namespaces whose container is known.
func (z *ZDBPlacement) All() (map[string]zdb.Home, error) {
	recs, err := z.records.OfType(workload.TypeZDB)
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]zdb.Home{}
	for _, rec := range recs {
		told := resultOf(rec)
		container := cmp.Or(told.Container, z.set[rec.ID()])
		if container != "" {
			out[rec.ID()] = zdb.Home{Container: container, Reservation: rec.Reservation, Address: told.IP}
		}
	}
	return out, nil
}

// Was reports whether the namespace's user was told that it is there.
func (z *ZDBPlacement) Was(namespace string) (bool, error) {
	rec, err := z.records.Record(namespace)
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil && isZDB(rec) && !rec.Deployed.IsZero(), err
}

// isZDB reports whether a record is of a namespace that is, or may be, on the node.
func isZDB(rec store.Record) bool {
	return rec.Reservation.Type == workload.TypeZDB && !rec.Tombstone()
}

// resultOf is what the newest result tells, nothing unless that is StateOK.
func resultOf(rec store.Record) (result workload.ZDBResult) {
	if rec.Result == nil || rec.Result.State != workload.StateOK || json.Unmarshal(rec.Result.Data, &result) != nil {
		return workload.ZDBResult{}
	}
	return result
}

// contextHomes asks the ZDBMapping of a context first.
type contextHomes struct {
	*ZDBPlacement
	mapping workload.ZDBMapping
}

// Get implements ZDBMapping.
func (h contextHomes) Get(namespace string) (string, bool) {
	if container, ok := h.mapping.Get(namespace); ok {
		return container, ok
	}
	return h.ZDBPlacement.Get(namespace)
}

// Set implements ZDBMapping.
func (h contextHomes) Set(namespace, container string) {
	h.mapping.Set(namespace, container)
	h.ZDBPlacement.Set(namespace, container)
}

// HomesFor returns the Homes of an engine made by New: its context's ZDBMapping if there is
// one, as in the published API, and its own records.
func HomesFor(ctx context.Context, records store.Records) zdb.Homes {
	own := NewZDBMapping(records)
	if mapping := GetZDBMapping(ctx); mapping != nil {
		return contextHomes{own, mapping}
	}
	return own
}

// nowhere knows of no namespace.
type nowhere struct{}

func (nowhere) Get(string) (string, bool) { return "", false }

func (nowhere) Set(string, string) {}

func (nowhere) All() (map[string]zdb.Home, error) { return nil, nil }

func (nowhere) Was(string) (bool, error) { return false, nil }
