package api

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// settle waits up to a minute until ok returns true.
func settle(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("in a minute it didn't come about that " + what)
		}
	}
}

type polled struct {
	page wire.Page
	err  error
	took time.Duration
}

// polling starts a poll at the node's head, and returns once it waits.
func (h *harness) polling(key sign.KeyPair, wait time.Duration) <-chan polled {
	h.t.Helper()
	before := h.waiters.Waiting()
	out := h.poll(key, wait)
	settle(h.t, "the poll waits", func() bool { return h.waiters.Waiting() > before })
	return out
}

// poll starts a poll at the node's head.
func (h *harness) poll(key sign.KeyPair, wait time.Duration) <-chan polled {
	h.t.Helper()
	head, ok := h.store.Nodes.Head(key.ID())
	if !ok {
		h.t.Fatal("the node isn't registered")
	}
	c := h.anybody()
	out := make(chan polled, 1)
	go func() {
		start := time.Now()
		page, err := c.PollPage(context.Background(), key.ID(), wire.Cursor{Epoch: h.store.Epoch(), Change: head}, wait)
		out <- polled{page, err, time.Since(start)}
	}()
	return out
}

func TestAPushWakesExactlyItsNode(t *testing.T) {
	h := start(t)
	user := newKey(t)
	one, _ := h.node()
	two, _ := h.node()
	first, second := h.polling(one, 20*time.Second), h.polling(two, 20*time.Second)
	r := h.push(user, one.ID())
	got := <-first
	must(t, got.err)
	if len(got.page.Reservations) != 1 || got.took > 10*time.Second {
		t.Fatalf("the poll answers %+v after %s", got.page, got.took)
	}
	if h.waiters.Waiting() != 1 {
		t.Errorf("%d polls wait, want the other node's", h.waiters.Waiting())
	}
	select {
	case p := <-second:
		t.Fatalf("the other node's poll answers %+v", p)
	default:
	}
	// A deletion wakes the poll too, a result doesn't.
	first = h.polling(one, 20*time.Second)
	must(t, h.anybody().PutResult(t.Context(), h.result(one, r)))
	must(t, r.SignDeletion(workload.Deletion{Created: h.clock.now().UTC()}, user.Private()))
	must(t, h.anybody().Delete(t.Context(), r.ID, *r.Deletion))
	got = <-first
	must(t, got.err)
	if len(got.page.Reservations) != 1 || got.page.Next != 2 {
		t.Errorf("the deletion's page is %+v", got.page)
	}
	h.push(user, two.ID())
	must(t, (<-second).err)
}

func TestAPollEndsByItself(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.MaxWait = 150 * time.Millisecond })
	key, _ := h.node()
	for name, wait := range map[string]time.Duration{"by its own wait": 50 * time.Millisecond, "by the explorer's": time.Hour} {
		got := <-h.poll(key, wait) // it may be over before anybody sees it wait
		must(t, got.err)
		if len(got.page.Reservations) != 0 || got.page.Resync || got.took < 40*time.Millisecond {
			t.Errorf("%s: %+v after %s", name, got.page, got.took)
		}
	}
	// The seed's form of a poll ends too, with an empty array.
	start := time.Now()
	status, _, body := h.do("GET", "/reservations/"+key.ID()+"/poll?from=100", "")
	if status != 200 || body != "[]\n" || time.Since(start) < 140*time.Millisecond {
		t.Errorf("the seed's poll answers %d %q after %s", status, body, time.Since(start))
	}
	if n := h.waiters.Waiting(); n != 0 {
		t.Errorf("%d polls still wait", n)
	}
}

func TestStoppingAnswersAllPolls(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	polls := []<-chan polled{h.polling(key, time.Minute), h.polling(key, time.Minute)}
	h.waiters.Close()
	for _, p := range polls {
		if got := <-p; got.err != nil || len(got.page.Reservations) != 0 {
			t.Errorf("a poll answers %+v, %v", got.page, got.err)
		}
	}
}

func TestAClientThatLeavesIsForgotten(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	c := h.anybody()
	go func() {
		_, err := c.PollPage(ctx, key.ID(), wire.Cursor{Epoch: h.store.Epoch()}, time.Minute)
		done <- err
	}()
	settle(t, "the poll waits", func() bool { return h.waiters.Waiting() == 1 })
	leave()
	if err := <-done; err == nil {
		t.Error("a poll that was left has no error")
	}
	settle(t, "nobody waits", func() bool { return h.waiters.Waiting() == 0 })
}

func TestWaitersAreBounded(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.MaxPolls = longpoll.MaxOfNode + 2 })
	crowded, _ := h.node()
	var polls []<-chan polled
	for range longpoll.MaxOfNode {
		polls = append(polls, h.polling(crowded, time.Minute))
	}
	// One more poll ends only the oldest.
	c := h.anybody()
	more := make(chan error, 1)
	go func() {
		_, err := c.PollPage(context.Background(), crowded.ID(), wire.Cursor{Epoch: h.store.Epoch()}, time.Minute)
		more <- err
	}()
	if got := <-polls[0]; got.err != nil || len(got.page.Reservations) != 0 {
		t.Errorf("the oldest answers %+v, %v", got.page, got.err)
	}
	settle(t, "16 wait", func() bool { return h.waiters.Waiting() == longpoll.MaxOfNode })
	for i, p := range polls[1:] {
		select {
		case got := <-p:
			t.Errorf("poll %d answers %+v", i+1, got)
		default:
		}
	}
	// Above the limit of all polls, the answer is an error with the advice to retry.
	for range 2 {
		key, _ := h.node()
		h.polling(key, time.Minute)
	}
	late, _ := h.node()
	h.problem("GET", "/reservations/"+late.ID()+"/poll?after=0&wait=10s&epoch="+h.store.Epoch(), "", 503)
	h.waiters.Close()
	must(t, <-more)
}

// Polls concurrent with pushes miss no change.
func TestNoChangeIsMissed(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	const pushes = 60
	var pushing sync.WaitGroup
	for range 4 {
		pushing.Go(func() {
			for range pushes / 4 {
				r := h.volume(user, key.ID())
				if _, err := h.anybody().Reserve(context.Background(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := map[string]bool{}
	cursor := wire.Cursor{}
	for len(seen) < pushes {
		page, err := c.PollPage(t.Context(), key.ID(), cursor, 10*time.Second)
		must(t, err)
		if len(page.Reservations) == 0 && !page.Resync {
			t.Fatalf("a poll of 10 s gives nothing after %d of %d", len(seen), pushes)
		}
		for _, raw := range page.Reservations {
			r, err := wire.Document(raw)
			must(t, err)
			if seen[r.ID] {
				t.Errorf("%s comes twice", r.ID)
			}
			seen[r.ID] = true
		}
		cursor = wire.Cursor{Epoch: page.Epoch, Change: page.Next}
	}
	pushing.Wait()
}

func TestPagesOfAPoll(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	const rows, n = 20, 25
	h.api.polls.page.Rows = rows
	h.pushMany(user, key.ID(), n)
	page, err := c.PollPage(t.Context(), key.ID(), wire.Cursor{}, 0)
	must(t, err)
	if !page.Resync || len(page.Reservations) != rows || page.Next != rows || page.Head != n {
		t.Fatalf("first page: resync %t, %d reservations, next %d, head %d", page.Resync, len(page.Reservations), page.Next, page.Head)
	}
	page, err = c.PollPage(t.Context(), key.ID(), wire.Cursor{Epoch: page.Epoch, Change: page.Next}, time.Minute)
	must(t, err)
	if page.Resync || len(page.Reservations) != 5 || page.Next != n {
		t.Fatalf("second page: resync %t, %d reservations, next %d", page.Resync, len(page.Reservations), page.Next)
	}
}

// A page is bounded in bytes too, but always holds one reservation.
func TestPagesAreBoundedInBytes(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	h.pushMany(user, key.ID(), 3)
	h.api.polls.page.Bytes = 1
	cursor := wire.Cursor{}
	for i := range 3 {
		page, err := c.PollPage(t.Context(), key.ID(), cursor, 0)
		must(t, err)
		if len(page.Reservations) != 1 || page.Next != uint64(i+1) {
			t.Fatalf("page %d has %d reservations, next %d", i, len(page.Reservations), page.Next)
		}
		cursor = wire.Cursor{Epoch: page.Epoch, Change: page.Next}
	}
}

// An expired reservation whose last result has arrived isn't sent again; one without
// its last result is, and so is a deleted one before it expires.
func TestOldHistoryIsLeftOut(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	done, unanswered, running, deleted := h.push(user, key.ID()), h.push(user, key.ID()), h.push(user, key.ID()), h.push(user, key.ID(), func(r *workload.Reservation) { r.Duration = 50 * time.Hour })
	must(t, deleted.SignDeletion(workload.Deletion{Created: h.clock.now().UTC()}, user.Private()))
	must(t, c.Delete(t.Context(), deleted.ID, *deleted.Deletion))
	must(t, c.PutResult(t.Context(), h.result(key, deleted, func(x *workload.Result) { x.State = workload.StateDeleted })))
	must(t, c.PutResult(t.Context(), h.result(key, running)))
	must(t, c.PutResult(t.Context(), h.result(key, done, func(x *workload.Result) { x.State = workload.StateExpired })))
	h.clock.add(2 * time.Hour)
	page, err := c.PollPage(t.Context(), key.ID(), wire.Cursor{}, 0)
	must(t, err)
	got := map[string]bool{}
	for _, raw := range page.Reservations {
		r, err := wire.Document(raw)
		must(t, err)
		got[r.ID] = true
	}
	if got[done.ID] || !got[unanswered.ID] || !got[running.ID] || !got[deleted.ID] || page.Next != page.Head {
		t.Errorf("the page has %v, next %d of %d", got, page.Next, page.Head)
	}
}

// A restored backup is behind the node's cursor: the node must resync.
func TestARestoredBackupMeansResync(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	kept := h.push(user, key.ID())
	backup := filepath.Join(t.TempDir(), "backup.db")
	must(t, store.Backup(t.Context(), h.path, backup))
	h.push(user, key.ID())
	page, err := c.PollPage(t.Context(), key.ID(), wire.Cursor{}, 0)
	must(t, err)
	cursor := wire.Cursor{Epoch: page.Epoch, Change: page.Next}

	restored := startAt(t, backup)
	page, err = restored.anybody().PollPage(t.Context(), key.ID(), cursor, time.Minute)
	must(t, err)
	if !page.Resync || page.Epoch != cursor.Epoch || page.Next != 1 || len(page.Reservations) != 1 {
		t.Fatalf("the restored explorer's page is %+v, want a resync by the head", page)
	}
	restored.stop()

	// A new epoch means resync even after the head has caught up, and skips numbers
	// that may have been given out before.
	if _, err := store.NewEpoch(t.Context(), backup, 1000); err != nil {
		t.Fatal(err)
	}
	again := startAt(t, backup)
	if r := again.push(user, key.ID()); r.ID != "1002-1" {
		t.Errorf("the next number is %s, want 1002-1", r.ID)
	}
	page, err = again.anybody().PollPage(t.Context(), key.ID(), cursor, time.Minute)
	must(t, err)
	if !page.Resync || page.Epoch == cursor.Epoch || len(page.Reservations) != 2 {
		t.Fatalf("the page of the new epoch is %+v", page)
	}
	if first, err := wire.Document(page.Reservations[0]); err != nil || first.ID != kept.ID {
		t.Errorf("the first is %+v, %v", first, err)
	}
}

// A cursor's largest number means the end, not the start.
func TestTheSeedsCursorDoesntWrap(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.MaxWait = 50 * time.Millisecond })
	key, c := h.node()
	r := h.push(newKey(t), key.ID())
	for _, from := range []uint64{2, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		got, err := c.PollFrom(t.Context(), key.ID(), from)
		must(t, err)
		if len(got) != 0 {
			t.Errorf("from %d gives %d reservations, want none", from, len(got))
		}
	}
	got, err := c.PollFrom(t.Context(), key.ID(), 1)
	must(t, err)
	if len(got) != 1 || got[0].ID != r.ID {
		t.Errorf("from 1 gives %+v", got)
	}
	h.problem("GET", "/reservations/"+key.ID()+"/poll?from=18446744073709551616", "", 400)
	page, err := c.PollPage(t.Context(), key.ID(), wire.Cursor{Epoch: h.store.Epoch(), Change: 1<<63 - 1}, time.Minute)
	must(t, err)
	if !page.Resync || page.Next != 1 {
		t.Errorf("a cursor beyond all changes gives %+v, want a resync", page)
	}
}

// Strangers' polls can take neither all places nor the place of the node's own poll.
func TestANodesPollKeepsItsPlace(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.MaxPolls, c.Policy.AddressRate, c.Policy.AddressBurst = 4, 1e6, 1e6 })
	key, _ := h.node()
	path := "/reservations/" + key.ID() + "/poll?after=0&epoch=" + h.store.Epoch()
	ask := func(remote string) (*httptest.ResponseRecorder, func()) {
		ctx, stop := context.WithCancel(t.Context())
		r := httptest.NewRequest("GET", path, nil).WithContext(ctx)
		r.RemoteAddr = remote
		w, done := httptest.NewRecorder(), make(chan struct{})
		go func() { defer close(done); h.api.ServeHTTP(w, r) }()
		return w, func() { stop(); <-done }
	}
	var ends []func()
	// Strangers get one poll per source, and two of four places.
	for i, want := range []int{1, 1, 2, 2} {
		_, end := ask([]string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "192.0.2.3:1"}[i])
		ends = append(ends, end)
		settle(t, "it waits", func() bool { return h.waiters.Waiting() == want })
	}
	_, end := ask("127.0.0.1:1") // the source of the node's signed requests
	ends = append(ends, end)
	settle(t, "the node waits", func() bool { return h.waiters.Waiting() == 3 })
	for _, end := range ends {
		end()
	}
	if h.polls() != 0 {
		t.Errorf("%d places are taken in the end", h.polls())
	}
}

func (h *harness) polls() int64 { return h.api.polls.room.Taken() }
