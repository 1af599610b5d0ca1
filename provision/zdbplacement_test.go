package provision_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
	"github.com/croft-edge/croft/provision/seed"
	"github.com/croft-edge/croft/provision/store"
)

var (
	_ provision.ZDBMapping = (*provision.ZDBPlacement)(nil)
	_ zdb.Homes            = (*provision.ZDBPlacement)(nil)
)

// zdbRecord writes the record of a namespace.
func (w *world) zdbRecord(id string, phase store.Phase, result *workload.Result) store.Record {
	w.t.Helper()
	r := w.reserve(workload.TypeZDB, `{"size":1,"mode":"seq","disk_type":"SSD"}`, nil)
	r.ID = id
	hash, err := r.Hash()
	if err != nil {
		w.t.Fatal(err)
	}
	rec := store.Record{Reservation: r, Hash: hash, Phase: store.Intent, Accepted: time.Now()}
	if _, err := w.records.Write(rec); err != nil {
		w.t.Fatal(err)
	}
	rec.Phase, rec.Result = phase, result
	if phase == store.Deployed {
		rec.Deployed = time.Now()
	}
	return w.finish(rec)
}

func (w *world) finish(rec store.Record) store.Record {
	w.t.Helper()
	rec, err := written(w.records.Write(rec))
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// livesIn is the result of a namespace in that container.
func livesIn(id, container string) *workload.Result {
	data, _ := json.Marshal(workload.ZDBResult{Namespace: id, IP: "192.0.2.7", Port: 9900, Container: container})
	return &workload.Result{ID: id, Type: workload.TypeZDB, State: workload.StateOK, Created: time.Now(), Data: data}
}

func TestHomesAreReadFromTheNodesOwnRecords(t *testing.T) {
	w := newWorld(t)
	homes := provision.NewZDBMapping(w.records)
	in := func(id, want string) {
		t.Helper()
		if got, known := homes.Get(id); got != want || known != (want != "") {
			t.Errorf("%s lives in %q (%t), want %q", id, got, known, want)
		}
	}
	was := func(id string, want bool) {
		t.Helper()
		if got, err := homes.Was(id); got != want || err != nil {
			t.Errorf("%s was told to be there: %t, %v", id, got, err)
		}
	}
	in("1-1", "")
	was("1-1", false)
	rec := w.zdbRecord("1-1", store.Deployed, livesIn("1-1", "zdb-ssd0-seq"))
	w.zdbRecord("2-1", store.Intent, nil)
	w.zdbRecord("3-1", store.Failed, livesIn("3-1", "zdb-ssd0-seq"))
	w.zdbRecord("4-1", store.Leaving, livesIn("4-1", "zdb-hdd0-seq"))
	broken := livesIn("5-1", "")
	broken.Data = json.RawMessage(`{"Container":7}`)
	w.zdbRecord("5-1", store.Deployed, broken)
	in("1-1", "zdb-ssd0-seq")
	in("2-1", "")
	in("3-1", "")
	in("4-1", "zdb-hdd0-seq")
	in("5-1", "")
	was("1-1", true)
	was("2-1", false)
	was("3-1", false)

	homes.Set("2-1", "zdb-ssd0-seq")
	homes.Set("1-1", "zdb-other-seq") // the record has precedence
	homes.Set("9-1", "zdb-ssd0-seq")  // it has none
	in("2-1", "zdb-ssd0-seq")
	in("1-1", "zdb-ssd0-seq")
	in("9-1", "")
	all, err := homes.All()
	if err != nil || len(all) != 3 || all["1-1"].Container != "zdb-ssd0-seq" || all["4-1"].Container != "zdb-hdd0-seq" || all["2-1"].Reservation.ID != "2-1" {
		t.Errorf("all are %+v, %v", all, err)
	}

	// A failed result doesn't tell the container: Set's value counts.
	homes.Set("1-1", "zdb-ssd0-seq")
	rec.Phase, rec.Result = store.Retry, &workload.Result{ID: "1-1", Type: workload.TypeZDB, State: workload.StateError, Error: "its pool is broken", Created: time.Now()}
	rec = w.finish(rec)
	in("1-1", "zdb-ssd0-seq")

	// The next process knows only the records' containers.
	homes = provision.NewZDBMapping(w.records)
	in("4-1", "zdb-hdd0-seq")
	in("1-1", "")
	in("2-1", "")
	was("1-1", true)

	rec.Phase, rec.Result = store.Deployed, livesIn("1-1", "zdb-ssd1-seq")
	rec = w.finish(rec)
	in("1-1", "zdb-ssd1-seq")
	rec.Phase = store.Ended
	w.finish(rec)
	homes.Set("1-1", "zdb-ssd1-seq")
	in("1-1", "")
	was("1-1", false)
}

func TestOnlyNamespacesHaveAHome(t *testing.T) {
	prepare := func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: &fakeProvisioner{}}
	}
	inWorld(t, prepare, func(t *testing.T, w *world, _ *incarnation) {
		homes := provision.NewZDBMapping(w.records)
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		homes.Set(id, "zdb-ssd0-seq")
		if got, known := homes.Get(id); known {
			t.Errorf("a volume lives in %s", got)
		}
		if all, err := homes.All(); err != nil || len(all) != 0 {
			t.Errorf("all are %v, %v", all, err)
		}
		if was, err := homes.Was(id); err != nil || was {
			t.Errorf("a volume was told to be a namespace, %v", err)
		}
	})
}

// failing are records that can't be read.
type failing struct{ store.Records }

func (failing) Record(string) (store.Record, error) {
	return store.Record{}, node.Errorf(node.Internal, "cannot read")
}
func (failing) OfType(workload.Type) ([]store.Record, error) {
	return nil, node.Errorf(node.Internal, "cannot read")
}

func TestRecordsThatCannotBeReadAreNoAnswer(t *testing.T) {
	homes := provision.NewZDBMapping(failing{})
	homes.Set("1-1", "zdb-ssd0-seq")
	if container, known := homes.Get("1-1"); !known || container != "zdb-ssd0-seq" {
		t.Errorf("what was set is forgotten: %q", container)
	}
	if _, err := homes.All(); err == nil {
		t.Error("all are known")
	}
	if _, err := homes.Was("1-1"); err == nil {
		t.Error("it is known that it wasn't there")
	}
}

// mapping is a program's own ZDBMapping, as in the published API.
type mapping map[string]string

func (m mapping) Get(namespace string) (string, bool) { c, ok := m[namespace]; return c, ok }
func (m mapping) Set(namespace, container string)     { m[namespace] = container }

func TestAMappingOfTheContextIsAskedFirst(t *testing.T) {
	w := newWorld(t)
	w.zdbRecord("1-1", store.Deployed, livesIn("1-1", "zdb-ssd0-seq"))
	own := mapping{"2-1": "zdb-hdd0-user"}
	homes := seed.HomesFor(provision.WithZDBMapping(context.Background(), own), w.records)
	for id, want := range map[string]string{"1-1": "zdb-ssd0-seq", "2-1": "zdb-hdd0-user", "3-1": ""} {
		if got, _ := homes.Get(id); got != want {
			t.Errorf("%s lives in %q, want %q", id, got, want)
		}
	}
	homes.Set("3-1", "zdb-ssd0-user")
	if own["3-1"] != "zdb-ssd0-user" {
		t.Error("it isn't told what was set")
	}
	if got, _ := seed.HomesFor(context.Background(), w.records).Get("2-1"); got != "" {
		t.Errorf("without one, 2-1 lives in %q", got)
	}
}

// written returns the one record of a write.
func written(recs []store.Record, err error) (store.Record, error) {
	if err != nil || len(recs) != 1 {
		return store.Record{}, err
	}
	return recs[0], nil
}
