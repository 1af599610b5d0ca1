package provision_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// stepper knows every point at which a node may stop: before and after each durable write
// and each call. A point is named by its event and that event's count, so that it is the
// same in each run whatever the goroutines' order. The node dies at the point named by at:
// from then on its actions have no effect, and nothing answers.
type stepper struct {
	mu      sync.Mutex
	at      string
	seen    map[string]int
	points  []string
	dead    bool
	stopped chan struct{}
	// counted is whether writes are named by their number alone.
	counted bool
}

func newStepper(at string) *stepper {
	return &stepper{at: at, seen: map[string]int{}, stopped: make(chan struct{})}
}

// point reports whether the node is alive after this point.
func (s *stepper) point(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return false
	}
	s.seen[name]++
	name = fmt.Sprintf("%s #%d", name, s.seen[name])
	s.points = append(s.points, name)
	if name == s.at {
		s.dead = true
		close(s.stopped)
	}
	return !s.dead
}

func (s *stepper) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.points...)
}

func (s *stepper) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// errDead is the error of a dead node's calls; nothing reads it.
func errDead() error { return node.Errorf(node.Transient, "the node is dead") }

// stepped runs one effect between its two points.
func stepped[T any](s *stepper, name string, effect func() (T, error)) (T, error) {
	var none T
	if !s.point("before " + name) {
		return none, errDead()
	}
	v, err := effect()
	if !s.point("after " + name) {
		return none, errDead()
	}
	return v, err
}

func nothing(effect func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, effect() }
}

// steppedRecords is a real store whose every write is two points.
type steppedRecords struct {
	*store.FSStore
	steps *stepper
}

// Write is named by its records where these are the same in each run: concurrent effects
// share writes by chance, so their writes are only counted.
func (r *steppedRecords) Write(recs ...store.Record) ([]store.Record, error) {
	name := "write"
	for _, rec := range recs {
		if !r.steps.counted {
			name += " " + rec.ID() + " " + string(rec.Phase)
		}
	}
	return stepped(r.steps, name, func() ([]store.Record, error) { return r.FSStore.Write(recs...) })
}

func (r *steppedRecords) Resend(ids ...string) error {
	_, err := stepped(r.steps, "resend "+strings.Join(ids, " "), nothing(func() error { return r.FSStore.Resend(ids...) }))
	return err
}

func (r *steppedRecords) Acknowledge(receipts ...store.Receipt) error {
	name := "acknowledge"
	for _, receipt := range receipts {
		name += " " + receipt.ID
	}
	_, err := stepped(r.steps, name, nothing(func() error { return r.FSStore.Acknowledge(receipts...) }))
	return err
}

func (r *steppedRecords) Bury(id string) error {
	_, err := stepped(r.steps, "bury "+id, nothing(func() error { return r.FSStore.Bury(id) }))
	return err
}

type steppedStorage struct {
	storage *storage
	steps   *stepper
}

func (s *steppedStorage) CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error) {
	return stepped(s.steps, "create "+spec.Name, func() (node.Filesystem, error) { return s.storage.CreateFilesystem(ctx, spec) })
}

func (s *steppedStorage) InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error) {
	return s.storage.InspectFilesystem(ctx, name)
}

func (s *steppedStorage) ReleaseFilesystem(ctx context.Context, name string) error {
	_, err := stepped(s.steps, "release "+name, nothing(func() error { return s.storage.ReleaseFilesystem(ctx, name) }))
	return err
}

func (s *steppedStorage) ListFilesystems(ctx context.Context) ([]node.Filesystem, error) {
	return stepped(s.steps, "list", func() ([]node.Filesystem, error) { return s.storage.ListFilesystems(ctx) })
}

type steppedSigner struct {
	key   sign.KeyPair
	steps *stepper
}

func (s *steppedSigner) Sign(_ context.Context, message []byte) ([]byte, error) {
	return stepped(s.steps, "sign", func() ([]byte, error) { return s.key.Sign(message), nil })
}

type steppedSender struct {
	explorer *fakeExplorer
	steps    *stepper
}

func (s *steppedSender) PutResult(ctx context.Context, r *workload.Result) error {
	_, err := stepped(s.steps, "send "+r.ID+" "+string(r.State), nothing(func() error { return s.explorer.PutResult(ctx, r) }))
	return err
}

// steppedPoller's polls are points only when they return something: the number of empty polls varies.
type steppedPoller struct {
	explorer *fakeExplorer
	steps    *stepper
}

func (p *steppedPoller) PollPage(ctx context.Context, id string, after explorer.Cursor, wait time.Duration) (explorer.Page, error) {
	if p.steps.isDead() {
		return explorer.Page{}, errDead()
	}
	page, err := p.explorer.PollPage(ctx, id, after, wait)
	if len(page.Reservations) > 0 && !p.steps.point("after poll") {
		return explorer.Page{}, errDead()
	}
	return page, err
}

type steppedCursor struct {
	file  source.Cursors
	steps *stepper
}

func (c *steppedCursor) Cursor() explorer.Cursor { return c.file.Cursor() }

func (c *steppedCursor) SetCursor(cursor explorer.Cursor) error {
	_, err := stepped(c.steps, "cursor", nothing(func() error { return c.file.SetCursor(cursor) }))
	return err
}
