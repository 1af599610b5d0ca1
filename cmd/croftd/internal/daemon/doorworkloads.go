package daemon

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	cosi "github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/uses"
)

// userWorkloads answers users' requests about their workloads.
type userWorkloads struct {
	parts   *engineParts
	modules clients
	logDir  string
	log     zerolog.Logger
}

// askContainer is how long the container module may take to describe one container.
const askContainer = time.Second

// Owner implements userapi.Workloads.
func (r userWorkloads) Owner(_ context.Context, id string) (string, error) {
	rec, err := r.parts.store.Record(id)
	if err != nil {
		return "", err
	}
	return rec.Reservation.User, nil
}

// Holds implements userapi.Workloads.
func (r userWorkloads) Holds(user string) bool {
	of, _ := r.parts.store.Usage(user)
	return of.Workloads > 0
}

// Status implements userapi.Workloads.
func (r userWorkloads) Status(ctx context.Context, id string) (nodeapi.Status, error) {
	s, err := r.parts.engine.StatusOf(id)
	if err != nil {
		return nodeapi.Status{}, err
	}
	out := nodeapi.Status{
		ID: s.ID, Type: s.Type, Phase: string(s.Phase), State: s.State, Error: s.Error, Attempts: s.Attempts, NextAttempt: s.NextAttempt,
		Expires: s.Expires, Delivered: s.Delivered, Waiting: s.Pending, Restored: s.Restored,
	}
	switch s.Type {
	case workload.TypeContainer:
		r.ask(ctx, &out)
	case workload.TypeKubernetes:
		r.askVM(ctx, &out)
	}
	return out, nil
}

// Events implements userapi.Workloads.
func (r userWorkloads) Events(ctx context.Context, id, user string) ([]nodeapi.Event, error) {
	rec, err := r.parts.store.Record(id)
	if err != nil {
		return nil, err
	}
	all, err := safe.StateListAll[*work.Event](ctx, r.parts.state.State(), cosi.WithLabelQuery(resource.LabelEqual(resources.LabelUser, user)))
	if err != nil {
		return nil, errors.Wrapf(err, "cannot read the events of %s", id)
	}
	object := uses.Name(rec)
	out := []nodeapi.Event{}
	for e := range all.All() {
		if s := e.TypedSpec(); s.Object == object && s.User == user {
			out = append(out, nodeapi.Event{
				Kind: s.Kind, Reason: s.Reason, Operation: s.Operation, Message: s.Message, Count: s.Count, First: s.First, Last: s.Last,
			})
		}
	}
	slices.SortFunc(out, func(a, b nodeapi.Event) int { return a.Last.Compare(b.Last) })
	return out, nil
}

// The console's lines that are searched for the guest's report, and those that are shown.
const (
	reportLines = 2000
	shownLines  = 10
)

// reportLost stands for a report that is no longer among the lines that are searched.
const reportLost = "its last report isn't among the console's last lines"

// askVM adds the vm module's answer, and the guest's report on its console; missing answers are left out.
func (r userWorkloads) askVM(ctx context.Context, s *nodeapi.Status) {
	ctx, cancel := context.WithTimeout(ctx, askContainer)
	defer cancel()
	vm, err := ownVM(ctx, r.parts, r.modules.vms, s.ID)
	if err != nil {
		return
	}
	s.VM = &nodeapi.VM{State: vm.State, Accelerator: vm.Accelerator, Restarts: vm.Restarts, Ended: vm.Ended, Next: vm.Next, Cause: vm.Cause}
	lines, err := logs.Last(r.logDir, s.ID, reportLines)
	if err != nil {
		return
	}
	// A report from before the VM's start is of another boot.
	lines = slices.DeleteFunc(lines, func(l node.LogLine) bool { return l.At < vm.Since })
	whole := len(lines) < reportLines
	if s.VM.Guest = reportIn(lines); s.VM.Guest == "" && !whole {
		s.VM.Guest = reportLost
	}
	if s.VM.Guest == nocloud.Ready {
		return
	}
	for _, l := range lines[max(0, len(lines)-shownLines):] {
		s.VM.LastLog = append(s.VM.LastLog, l.Text)
	}
}

// reportIn is the last report among lines of a console, which end with carriage returns.
func reportIn(lines []node.LogLine) string {
	for _, l := range slices.Backward(lines) {
		if text, ok := strings.CutPrefix(l.Text, nocloud.Report); ok {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// ask adds the container module's answers; missing answers are left out.
func (r userWorkloads) ask(ctx context.Context, s *nodeapi.Status) {
	ctx, cancel := context.WithTimeout(ctx, askContainer)
	defer cancel()
	var both sync.WaitGroup
	askBoth := func(f func()) { both.Go(func() { supervise.Do(r.log, "status", f) }) }
	askBoth(func() {
		if c, err := r.modules.containers.Inspect(ctx, s.ID); err == nil {
			s.Container = &nodeapi.Container{
				State: c.State, Image: c.Image, Restarts: c.Restarts, ExitCode: c.ExitCode, Ended: c.Ended, Next: c.Next,
				Cause: c.Cause, OOM: c.OOM, Drift: c.Drift, LastLog: c.LastLog,
			}
		}
	})
	askBoth(func() {
		if i, err := r.modules.images.Inspect(ctx, s.ID); err == nil {
			s.Image = &nodeapi.Image{Digest: i.Digest, Size: i.Size, Done: i.Done, Total: i.Total, Unpacking: i.Unpacking, Ready: i.Ready}
		}
	})
	both.Wait()
}

// Delete implements userapi.Workloads: the deletion takes the same path as one from the explorer. Of an
// ended or refused workload, only the hash is left: the deletion is verified against it, and changes
// nothing.
func (r userWorkloads) Delete(ctx context.Context, id string, d workload.Deletion) error {
	rec, err := r.parts.store.Record(id)
	if err != nil {
		return err
	}
	if err := verifyDeletion(rec, d); err != nil {
		return node.Errorf(node.Refused, "cannot delete %s: %w", id, err)
	}
	if rec.Tombstone() {
		return nil
	}
	c := *rec.Reservation
	c.Deletion, c.Renewal = &d, nil
	if err := r.parts.push.Push(ctx, &c); err != nil {
		return err
	}
	if rec, err = r.parts.store.Record(id); err != nil {
		return err
	}
	if rec.Reservation.Deletion == nil && !rec.Tombstone() {
		return node.Errorf(node.Transient, "cannot delete %s now: the node doesn't follow this deletion; its log says why", id)
	}
	return nil
}

// verifyDeletion checks that a record's user has signed the deletion.
func verifyDeletion(rec store.Record, d workload.Deletion) error {
	message, err := d.SigningBytes(rec.Hash)
	if err != nil {
		return err
	}
	return sign.Verify(rec.Reservation.User, message, d.Signature)
}
