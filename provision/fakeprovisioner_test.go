package provision_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// fakeProvisioner records its calls and keeps the provisioned IDs.
type fakeProvisioner struct {
	mu    sync.Mutex
	heard []string
	have  map[string]bool
	// answer replaces Provision's, decommission Decommission's.
	answer       func(ctx context.Context, r *workload.Reservation) (json.RawMessage, error)
	decommission func(ctx context.Context, r *workload.Reservation) error
	// order, when set, lists the calls of several provisioners.
	order *callOrder
}

type callOrder struct {
	mu    sync.Mutex
	calls []string
}

func (o *callOrder) add(call string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

func (o *callOrder) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

func (f *fakeProvisioner) note(call string) {
	f.order.add(call)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, call)
}

func (f *fakeProvisioner) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.heard)
}

func (f *fakeProvisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	f.note("provision " + r.ID)
	f.mu.Lock()
	answer := f.answer
	f.mu.Unlock()
	if answer != nil {
		if data, err := answer(ctx, r); data != nil || err != nil {
			return data, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.have == nil {
		f.have = map[string]bool{}
	}
	f.have[r.ID] = true
	return nil, nil
}

// failing makes every provision fail with err from now on; nil: none.
func (f *fakeProvisioner) failing(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = func(context.Context, *workload.Reservation) (json.RawMessage, error) { return nil, err }
}

func (f *fakeProvisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	f.note("decommission " + r.ID)
	return f.drop(ctx, r)
}

func (f *fakeProvisioner) drop(ctx context.Context, r *workload.Reservation) error {
	f.mu.Lock()
	decommission := f.decommission
	f.mu.Unlock()
	if decommission != nil {
		if err := decommission(ctx, r); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.have, r.ID)
	return nil
}

// Remove takes down the workload of the ID: this fake's have no hashes.
func (f *fakeProvisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	f.note("remove " + orphan.ID)
	return f.drop(ctx, &workload.Reservation{ID: orphan.ID})
}

func (f *fakeProvisioner) List(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for id := range f.have {
		ids = append(ids, id)
	}
	return ids, nil
}

// processorTime is the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
