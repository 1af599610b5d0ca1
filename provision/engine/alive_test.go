package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/store/durable"
)

// hangingDisk is a disk on which a write of a record hangs until let is closed.
type hangingDisk struct {
	*simDisk
	let <-chan struct{}
}

func (h hangingDisk) Put(objects ...durable.Object) error {
	for _, o := range objects {
		if strings.Contains(o.Name, "1-1") {
			<-h.let
		}
	}
	return h.simDisk.Put(objects...)
}

// An engine whose disk hangs counts as stuck a minute later, and not any more once the disk goes on.
func TestEngineWhoseDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := &simClock{now: time.Now(), level: clock.Remove}
		let := make(chan struct{})
		records, err := store.Open(store.Config{Disk: hangingDisk{newSimDisk(), let}, Clock: now, BirthClock: vouched{now}, NewNode: true})
		if err != nil {
			t.Fatal(err)
		}
		user, err := newSimUser("ann", true)
		if err != nil {
			t.Fatal(err)
		}
		r := &workload.Reservation{ID: "1-1", NodeID: user.id, User: user.id, Type: workload.TypeDebug, Version: 2, Created: now.now, Duration: time.Hour, Data: json.RawMessage(`{}`)}
		e, err := New(Config{
			Records: records, Policy: anyPolicy{}, Feedback: noFeedback{}, Clock: now, Log: zerolog.Nop(), Limits: Limits{Drift: time.Hour},
			Sources:      []source.Source{given{r}},
			Provisioners: map[workload.Type]provisioner.Provisioner{workload.TypeDebug: &slowly{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Alive(t.Context()); err != nil {
			t.Errorf("an engine that hasn't begun: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(50 * time.Second)
		if err := e.Alive(t.Context()); err != nil {
			t.Errorf("after 50 seconds: %v", err)
		}
		time.Sleep(20 * time.Second)
		if err := e.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot go on with the engine: its thread has been at one step for 1m") {
			t.Errorf("after 70 seconds: %v", err)
		}
		close(let)
		time.Sleep(time.Minute)
		asked := time.Now()
		if err := e.Alive(t.Context()); err != nil || time.Since(asked) > 0 {
			t.Errorf("once the disk goes on: %v after %s", err, time.Since(asked))
		}
		if rec, err := records.Record("1-1"); err != nil || rec.Phase != lifecycle.Deployed {
			t.Errorf("the workload is %q, %v", rec.Phase, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := e.Alive(t.Context()); err != nil {
			t.Errorf("an engine that has ended: %v", err)
		}
	})
}
