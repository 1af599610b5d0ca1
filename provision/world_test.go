package provision_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/feedback"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/volume"
	"github.com/croft-edge/croft/provision/refusals"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// world is everything that outlives a node's process: its disk, its modules' content, its
// explorer, its clock.
type world struct {
	t        *testing.T
	key      sign.KeyPair
	user     sign.KeyPair
	storage  *storage
	explorer *fakeExplorer
	clock    *fakeClock
	cursor   *cursorFile
	orphans  *orphanBook
	dir      string
	records  *store.FSStore
	// provisioners beside the volume's.
	provisioners map[workload.Type]provisioner.Provisioner
	admission    provision.Admission
	limits       provision.Limits
	board        provision.Board
	// poll, when set, is how long the explorer holds a poll without news.
	poll time.Duration
	// wrap, when set, wraps the engine's records.
	wrap func(*steppedRecords) store.Records
	// acceptV1 is the operator's setting for the seed's signatures.
	acceptV1 bool
	// reserved is the date of the last reservation, in nanoseconds.
	reserved atomic.Int64
	// last is the running process.
	last *incarnation
	log  zerolog.Logger
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, tempDir(t, fastRoot(t)))
}

// fastRoot is a folder whose fsync costs nothing, where the machine has one.
func fastRoot(t testing.TB) string {
	t.Helper()
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return t.TempDir()
}

// tempDir makes a folder below root that is removed after the test.
func tempDir(t testing.TB, root string) string {
	t.Helper()
	dir, err := os.MkdirTemp(root, "croft-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newWorldAt(t *testing.T, dir string) *world {
	t.Helper()
	key, user := newKey(t), newKey(t)
	w := &world{
		t: t, key: key, user: user,
		storage:  newStorage(),
		explorer: newFakeExplorer(),
		clock:    &fakeClock{began: time.Now()},
		cursor:   &cursorFile{},
		orphans:  &orphanBook{},
		dir:      dir,
		records:  openStore(t, dir),
		limits:   provision.Limits{Retry: source.Backoff{Base: time.Second, Max: time.Minute}, Look: time.Minute, Drift: time.Hour},
		log:      zerolog.Nop(),
	}
	return w
}

func openStore(t *testing.T, dir string) *store.FSStore {
	t.Helper()
	s, err := store.Open(store.Config{Root: dir, NewNode: true, Demand: demandOf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newKey(t *testing.T) sign.KeyPair {
	t.Helper()
	k, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// incarnation is one process of the node.
type incarnation struct {
	engine *provision.NodeEngine
	cancel context.CancelFunc
	done   chan error
	steps  *stepper
}

// config is a node's wiring, with a point of steps before and after each effect.
func (w *world) config(steps *stepper) provision.Config {
	w.t.Helper()
	stepped := &steppedRecords{FSStore: w.records, steps: steps}
	var records store.Records = stepped
	if w.wrap != nil {
		records = w.wrap(stepped)
	}
	counts := &refusals.Counts{}
	poll, err := source.NewChanges(source.ChangesConfig{
		NodeID:   w.key.ID(),
		Poller:   &steppedPoller{w.explorer, steps},
		Cursors:  &steppedCursor{w.cursor, steps},
		Backoff:  source.Backoff{Base: time.Second, Max: 10 * time.Second},
		Wait:     w.poll,
		Refusals: counts,
		Log:      w.log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	provisioners := map[workload.Type]provisioner.Provisioner{workload.TypeVolume: volume.New(volume.Config{Storage: &steppedStorage{w.storage, steps}, Containers: emptyContainers{}})}
	maps.Copy(provisioners, w.provisioners)
	return provision.Config{
		Records:      records,
		Sources:      []source.Source{poll},
		Provisioners: provisioners,
		Policy:       w.judge(),
		Admission:    w.admission,
		Feedback:     w.feedback(records, steps),
		Clock:        w.clock,
		Orphans:      w.orphans,
		Board:        w.board,
		Refusals:     counts,
		Limits:       w.limits,
		Log:          w.log,
	}
}

// emptyContainers is the container module of a fake node without containers.
type emptyContainers struct{}

func (emptyContainers) List(context.Context) ([]node.ContainerInfo, error) {
	calls := &fakenode.Calls{}
	return fakenode.NewContainers(calls, fakenode.NewImages(calls)).List()
}

// start runs the node until stop, or until its stepper stops it.
func (w *world) start(steps *stepper) *incarnation {
	w.t.Helper()
	engine, err := provision.NewEngine(w.config(steps))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &incarnation{engine: engine, cancel: cancel, done: make(chan error, 1), steps: steps}
	go func() { i.done <- engine.Run(ctx) }()
	go func() {
		select {
		case <-steps.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	w.last = i
	return i
}

// judge is a node's real policy.
func (w *world) judge() provision.Policy {
	w.t.Helper()
	j, err := verify.New(verify.Config{
		Policy: verify.Policy{NodeID: w.key.ID(), AcceptV1: w.acceptV1}, Clock: w.clock, Store: w.records, Data: workload.Validate,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// feedback is a node's real feedback.
func (w *world) feedback(records store.Records, steps *stepper) provision.Feedback {
	w.t.Helper()
	f, err := feedback.New(feedback.Config{
		Outbox: records, Signer: &steppedSigner{w.key, steps}, Sender: &steppedSender{w.explorer, steps},
		MaxPause: 5 * time.Second, Grace: time.Second, Log: w.log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// stop ends the node in order and waits for it.
func (i *incarnation) stop(t *testing.T) {
	t.Helper()
	i.cancel()
	if err := <-i.done; err != nil {
		t.Fatalf("Run returns %v, want nil", err)
	}
}

// reserve makes a signed reservation of this node; edit may change it before it is signed.
func (w *world) reserve(t workload.Type, data string, edit func(r *workload.Reservation)) *workload.Reservation {
	w.t.Helper()
	// The one before may be answered already, in no time: each has a date of its own.
	for w.reserved.Swap(w.clock.wall().UnixNano()) == w.clock.wall().UnixNano() {
		time.Sleep(time.Millisecond)
	}
	r := &workload.Reservation{
		NodeID: w.key.ID(), Type: t, Data: json.RawMessage(data),
		Created: w.clock.wall(), Duration: 24 * time.Hour,
	}
	if edit != nil {
		edit(r)
	}
	if err := r.Sign(w.user.Private()); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// volume pushes a signed reservation of a volume, and returns its ID.
func (w *world) volume(edit func(r *workload.Reservation)) string {
	w.t.Helper()
	return w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, edit))
}

// networkData is a network of that name on this node.
func (w *world) networkData(name string) string {
	return fmt.Sprintf(`{"name":%q,"net_id":"","ip_range":"10.1.0.0/16","net_resources":[{"node_id":%q,"subnet":"10.1.1.0/24",
		"wg_private_key":%q,"wg_public_key":%q,"wg_listen_port":7777,"peers":[]}]}`,
		name, w.key.ID(), strings.Repeat("ab", 120), base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)))
}

// remove pushes its user's signed deletion.
func (w *world) remove(id string) {
	w.t.Helper()
	w.explorer.change(id, func(r *workload.Reservation) {
		if err := r.SignDeletion(workload.Deletion{Created: w.clock.wall()}, w.user.Private()); err != nil {
			w.t.Fatal(err)
		}
	})
}

// renew pushes its user's signed renewal.
func (w *world) renew(id string, expires time.Time) {
	w.t.Helper()
	w.explorer.change(id, func(r *workload.Reservation) {
		if err := r.SignRenewal(workload.Renewal{Expires: expires}, w.user.Private()); err != nil {
			w.t.Fatal(err)
		}
	})
}

// until waits, by the bubble's clock, until ok holds.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for range 9000 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("%s: not so after 900 s; explorer has %s, storage %v", what, w.explorer, w.storage.names())
}

// answered waits until the explorer has a result of that state.
func (w *world) answered(id string, state workload.State) *workload.Result {
	w.t.Helper()
	w.until(id+" is "+string(state), func() bool {
		r := w.explorer.result(id)
		return r != nil && r.State == state
	})
	return w.explorer.result(id)
}

func (w *world) phase(id string) store.Phase {
	w.t.Helper()
	rec, err := w.records.Record(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec.Phase
}

// storage is the storage module of the fake node, with failures and a hook by call.
type storage struct {
	disk *fakenode.Storage
	mu   sync.Mutex
	// made counts the creations of missing file systems, to detect doubles.
	made map[string]int
	// fail holds the errors of the next calls, by "create 1-1", "release 1-1", "list".
	fail map[string][]error
	// hook is called before each call that doesn't fail.
	hook func(call string)
}

// newStorage has room for any number of volumes.
func newStorage() *storage {
	return &storage{made: map[string]int{}, disk: fakenode.NewStorage(&fakenode.Calls{},
		node.Pool{Name: "ssd0", DiskType: workload.SSD, Offered: math.MaxUint64}, node.Pool{Name: "hdd0", DiskType: workload.HDD, Offered: math.MaxUint64})}
}

func (s *storage) next(call string) error {
	s.mu.Lock()
	errs := s.fail[call]
	if len(errs) > 0 {
		s.fail[call] = errs[1:]
	}
	hook := s.hook
	s.mu.Unlock()
	if len(errs) > 0 {
		return errs[0]
	}
	if hook != nil {
		hook(call)
	}
	return nil
}

// hooked sets the hook.
func (s *storage) hooked(hook func(call string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *storage) failing(call string, errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.fail = map[string][]error{}
	}
	s.fail[call] = errs
}

func (s *storage) CreateFilesystem(_ context.Context, spec node.FilesystemSpec) (node.Filesystem, error) {
	if err := s.next("create " + spec.Name); err != nil {
		return node.Filesystem{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.spec(spec.Name)
	fs, err := s.disk.CreateFilesystem(spec)
	if err == nil && !there {
		s.made[spec.Name]++
	}
	return fs, err
}

func (s *storage) InspectFilesystem(_ context.Context, name string) (node.Filesystem, error) {
	return s.disk.InspectFilesystem(name)
}

func (s *storage) ReleaseFilesystem(_ context.Context, name string) error {
	if err := s.next("release " + name); err != nil {
		return err
	}
	return s.disk.ReleaseFilesystem(name)
}

func (s *storage) ListFilesystems(context.Context) ([]node.Filesystem, error) {
	if err := s.next("list"); err != nil {
		return nil, err
	}
	return s.disk.ListFilesystems()
}

// spec is the storage module's file system of that name.
func (s *storage) spec(name string) (node.Filesystem, bool) {
	fs, there := s.disk.Filesystems()[name]
	return fs, there
}

func (s *storage) names() []string { return slices.Sorted(maps.Keys(s.disk.Filesystems())) }

func (s *storage) creations(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[name]
}

func (s *storage) lose(name string) { s.disk.Lose(name) }

// cursorFile and orphanBook are small files of the node.
type cursorFile struct {
	mu sync.Mutex
	c  explorer.Cursor
}

func (f *cursorFile) Cursor() explorer.Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.c
}

func (f *cursorFile) SetCursor(c explorer.Cursor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c = c
	return nil
}

type orphanBook struct {
	mu   sync.Mutex
	text []byte
}

func (b *orphanBook) Load() ([]provision.Orphan, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text == nil {
		return nil, nil
	}
	var out []provision.Orphan
	return out, json.Unmarshal(b.text, &out)
}

func (b *orphanBook) Save(orphans []provision.Orphan) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text, err = json.Marshal(orphans)
	return err
}

// compareSequence orders results by sequence.
func compareSequence(a, b *workload.Result) int { return cmp.Compare(a.Sequence, b.Sequence) }
