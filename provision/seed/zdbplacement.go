package seed

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
	"github.com/croft-edge/croft/provision/store"
)

// ZDBPlacement tells of the node's own records in which containers 0-db namespaces
// live. It is a ZDBMapping that writes nothing down itself.
type ZDBPlacement struct {
	records store.Records

	mu  sync.Mutex
	set map[string]string
}

// NewZDBMapping makes ZDBPlacement of those records.
func NewZDBMapping(records store.Records) *ZDBPlacement {
	return &ZDBPlacement{records: records, set: map[string]string{}}
}

// Get implements ZDBMapping: the container of a namespace that is on this node.
// What the record doesn't say, or doesn't say any more, Set has said.
func (z *ZDBPlacement) Get(namespace string) (string, bool) {
	rec, err := z.records.Record(namespace)
	z.mu.Lock()
	defer z.mu.Unlock()
	if node.KindOf(err) == node.NotExist || err == nil && !isZDB(rec) {
		delete(z.set, namespace)
		return "", false
	}
	if err == nil {
		if container := containerOf(rec); container != "" {
			return container, true
		}
	}
	container, ok := z.set[namespace]
	return container, ok
}

// Set implements ZDBMapping. It is remembered for as long as the process runs
// and the namespace has a record.
func (z *ZDBPlacement) Set(namespace, container string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.set[namespace] = container
}

// All returns where all namespaces live of which that is known.
func (z *ZDBPlacement) All() (map[string]zdb.Home, error) {
	recs, err := z.records.List()
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]zdb.Home{}
	for _, rec := range recs {
		if !isZDB(rec) {
			continue
		}
		container := containerOf(rec)
		if container == "" {
			container = z.set[rec.ID()]
		}
		if container != "" {
			out[rec.ID()] = zdb.Home{Container: container, Reservation: rec.Reservation}
		}
	}
	return out, nil
}

// Was reports whether its user was told that the namespace is there.
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

// containerOf is what the newest answer says, if it says that all is well.
func containerOf(rec store.Record) string {
	if rec.Result == nil || rec.Result.State != workload.StateOK {
		return ""
	}
	var result workload.ZDBResult
	if json.Unmarshal(rec.Result.Data, &result) != nil {
		return ""
	}
	return result.Container
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

// HomesFor is what an engine made by New asks: its context's ZDBMapping if there
// is one, as in the published API, and its own records.
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
