package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string, change ...func(*Config)) *Store {
	t.Helper()
	c := Config{Path: path}
	for _, f := range change {
		f(&c)
	}
	s, err := Open(context.Background(), c)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func register(t testing.TB, s *Store, id string) {
	t.Helper()
	must(t, s.Nodes.Update(context.Background(), Writer{}, id, Edit{Create: true, Seen: time.Now(), Apply: func(*wire.Node, bool) error { return nil }}))
}

func push(t testing.TB, key sign.KeyPair, nodeID string) Push {
	t.Helper()
	r := &workload.Reservation{NodeID: nodeID, Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Now().UTC(), Duration: time.Hour}
	must(t, r.Sign(key.Private()))
	hash, err := r.Hash()
	must(t, err)
	body, err := workload.Encode(r)
	must(t, err)
	return Push{Reservation: r, Hash: hash, Body: body}
}

func user(t testing.TB) sign.KeyPair {
	t.Helper()
	key, err := sign.Generate()
	must(t, err)
	return key
}

// Numbers have no gaps or duplicates, and each node's changes count from 1 in the
// order of the numbers, however many clients push at once.
func TestNumbersAndChanges(t *testing.T) {
	var mu sync.Mutex
	told := map[string][]uint64{}
	writes, commits := 0, 0
	s := open(t, filepath.Join(t.TempDir(), "e.db"), func(c *Config) {
		c.Changed = func(id string, head uint64) { mu.Lock(); told[id] = append(told[id], head); mu.Unlock() }
		c.Committed = func(n int, _ time.Duration) { mu.Lock(); writes += n; commits++; mu.Unlock() }
	})
	key := user(t)
	nodes := []string{"one", "two", "three"}
	for _, id := range nodes {
		register(t, s, id)
	}
	const each = 60
	var pushing sync.WaitGroup
	for i := range 30 {
		var pushes []Push
		for range each / 10 {
			pushes = append(pushes, push(t, key, nodes[i%3]))
		}
		pushing.Go(func() {
			for _, p := range pushes {
				if _, err := s.Reservations.Reserve(context.Background(), p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	pushing.Wait()
	seen := map[uint64]bool{}
	for _, id := range nodes {
		rows, more, err := s.Reservations.Changes(t.Context(), id, 0, time.Now(), Bound{Rows: 1000, Bytes: 1 << 30})
		must(t, err)
		if more || len(rows) != each {
			t.Fatalf("node %s has %d, more %t, want %d", id, len(rows), more, each)
		}
		last := uint64(0)
		for i, r := range rows {
			if r.Change != uint64(i+1) || r.N <= last || seen[r.N] {
				t.Fatalf("node %s: change %d is number %d after %d", id, r.Change, r.N, last)
			}
			last, seen[r.N] = r.N, true
		}
		if head, _ := s.Nodes.Head(id); head != each {
			t.Errorf("the head of %s is %d, want %d", id, head, each)
		}
	}
	for n := uint64(1); n <= 3*each; n++ {
		if !seen[n] {
			t.Errorf("number %d is missing", n)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range nodes {
		for i, head := range told[id][1:] {
			if head <= told[id][i] {
				t.Errorf("%s was told of %v: heads must grow", id, told[id])
			}
		}
	}
	if writes != 3*each+3 || commits >= writes {
		t.Errorf("%d writes had %d commits: writes that arrive together share one", writes, commits)
	}
}

// A failed write takes no number and doesn't fail the writes of its batch.
func TestAFailedWriteIsAlone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	key := user(t)
	register(t, s, "one")
	var pushing sync.WaitGroup
	for i := range 40 {
		p := push(t, key, map[bool]string{true: "one", false: "nobody"}[i%2 == 0])
		pushing.Go(func() {
			_, err := s.Reservations.Reserve(context.Background(), p)
			if want := p.Reservation.NodeID == "nobody"; (node.KindOf(err) == node.NotExist) != want {
				t.Errorf("%s: %v", p.Reservation.NodeID, err)
			}
		})
	}
	pushing.Wait()
	rows, _, err := s.Reservations.Changes(t.Context(), "one", 0, time.Now(), Bound{Rows: 100, Bytes: 1 << 30})
	must(t, err)
	if len(rows) != 20 || rows[19].N != 20 || rows[19].Change != 20 {
		t.Errorf("there are %d, the last is %+v: want 20 without gaps", len(rows), rows[len(rows)-1])
	}
	// The changes of a failed write are rolled back.
	err = s.writer.write(t.Context(), func(t *tx) error {
		t.number()
		t.change("one")
		if _, err := t.exec(`UPDATE reservations SET to_delete = 1`); err != nil {
			return err
		}
		return node.Errorf(node.Refused, "cannot do it after all")
	})
	if node.KindOf(err) != node.Refused {
		t.Errorf("error is %v", err)
	}
	p, err := s.Reservations.Reserve(t.Context(), push(t, key, "one"))
	must(t, err)
	row, err := s.Reservations.Get(t.Context(), 1)
	must(t, err)
	if p.N != 21 || row.ToDelete {
		t.Errorf("the next number is %d, want 21; the first is %+v", p.N, row)
	}
}

func TestOpenedAgainItGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.db")
	key := user(t)
	s := open(t, path)
	register(t, s, "one")
	p := push(t, key, "one")
	_, err := s.Reservations.Reserve(t.Context(), p)
	must(t, err)
	epoch := s.Epoch()
	must(t, s.Close())

	s = open(t, path)
	if head, ok := s.Nodes.Head("one"); !ok || head != 1 || s.Epoch() != epoch {
		t.Errorf("head %d, known %t, epoch %s, want 1 and %s", head, ok, s.Epoch(), epoch)
	}
	again, err := s.Reservations.Reserve(t.Context(), p)
	must(t, err)
	next, err := s.Reservations.Reserve(t.Context(), push(t, key, "one"))
	must(t, err)
	if !again.Existed || again.N != 1 || next.N != 2 {
		t.Errorf("again %+v, next %+v", again, next)
	}
}

func TestOneExplorerADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.db")
	s := open(t, path)
	_, err := Open(t.Context(), Config{Path: path})
	if node.KindOf(err) != node.Busy {
		t.Errorf("a second one opens it: %v", err)
	}
	must(t, s.Close())
	must(t, open(t, path).Close())
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	must(t, os.WriteFile(garbage, []byte("this is not a database, but long enough to look at; "+fmt.Sprint(make([]int, 999))), 0o600))
	newer := filepath.Join(dir, "newer.db")
	must(t, open(t, newer).Close())
	db, err := sql.Open("sqlite", newer)
	must(t, err)
	_, err = db.Exec(`UPDATE meta SET value = '99' WHERE key = 'schema'`)
	must(t, err)
	must(t, db.Close())
	for name, path := range map[string]string{"garbage": garbage, "a newer schema": newer, "a folder": dir, "no folder": filepath.Join(dir, "no", "e.db"), "no name": ""} {
		if _, err := Open(t.Context(), Config{Path: path}); err == nil {
			t.Errorf("%s opens", name)
		}
	}
	if _, err := NewEpoch(t.Context(), filepath.Join(dir, "absent.db"), 1); err == nil {
		t.Error("an absent database gets an epoch")
	}
	if err := Backup(t.Context(), filepath.Join(dir, "absent.db"), filepath.Join(dir, "b.db")); err == nil {
		t.Error("an absent database has a backup")
	}
}

// A full disk is reported as NoSpace, and stored reservations stay.
func TestAFullDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	key := user(t)
	register(t, s, "one")
	limit := func(pages string) {
		must(t, s.writer.write(t.Context(), func(t *tx) error {
			var now int
			return t.queryRow(`PRAGMA max_page_count = ` + pages).Scan(&now)
		}))
	}
	limit("20")
	var kept uint64
	var err error
	for range 200 {
		var p Pushed
		if p, err = s.Reservations.Reserve(t.Context(), push(t, key, "one")); err != nil {
			break
		}
		kept = p.N
	}
	if node.KindOf(err) != node.NoSpace {
		t.Fatalf("error is %v (%s), want NoSpace", err, node.KindOf(err))
	}
	rows, _, err := s.Reservations.Changes(t.Context(), "one", 0, time.Now(), Bound{Rows: 1000, Bytes: 1 << 30})
	must(t, err)
	if uint64(len(rows)) != kept {
		t.Errorf("%d are there, %d were acknowledged", len(rows), kept)
	}
	if head, _ := s.Nodes.Head("one"); head != kept {
		t.Errorf("the head is %d, want %d", head, kept)
	}
	limit("1000000")
	p, err := s.Reservations.Reserve(t.Context(), push(t, key, "one"))
	must(t, err)
	if p.N != kept+1 {
		t.Errorf("the next is %d, want %d", p.N, kept+1)
	}
}

func TestAClosedStore(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	register(t, s, "one")
	p := push(t, user(t), "one")
	must(t, s.Close())
	if _, err := s.Reservations.Reserve(t.Context(), p); node.KindOf(err) != node.Transient {
		t.Errorf("error is %v, want Transient", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	open := open(t, filepath.Join(t.TempDir(), "f.db"))
	if _, err := open.Reservations.Reserve(ctx, p); err == nil {
		t.Error("a write goes on without its caller, and says it was done")
	}
}

// The latest birth's highest sequence is kept, in whatever order results arrive.
func TestResultsInAnyOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.db")
	s := open(t, path)
	key := user(t)
	register(t, s, "one")
	rapid.Check(t, func(rt *rapid.T) {
		pushed, err := s.Reservations.Reserve(context.Background(), push(t, key, "one"))
		if err != nil {
			rt.Fatal(err)
		}
		prefix := fmt.Sprint(pushed.N, "-")
		type answer struct {
			birth string
			seq   int64
		}
		births := map[string]int{}
		var kept answer
		for _, a := range rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) answer {
			return answer{prefix + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "birth"), rapid.Int64Range(1, 5).Draw(rt, "sequence")}
		}), 1, 10).Draw(rt, "answers") {
			if births[a.birth] == 0 {
				births[a.birth] = len(births) + 1
			}
			if births[a.birth] > births[kept.birth] || (a.birth == kept.birth && a.seq > kept.seq) {
				kept = a
			}
			r := &workload.Result{Type: workload.TypeVolume, ID: fmt.Sprint(pushed.N, "-1"), Created: time.Now().UTC(), State: workload.StateOK, Birth: a.birth, Sequence: a.seq}
			body, err := workload.EncodeResult(r)
			if err != nil {
				rt.Fatal(err)
			}
			if err := s.Results.Put(context.Background(), Answer{N: pushed.N, Result: r, Body: body}); err != nil {
				rt.Fatal(err)
			}
			row, err := s.Reservations.Get(context.Background(), pushed.N)
			if err != nil {
				rt.Fatal(err)
			}
			if row.Result.Birth != kept.birth || row.Result.Sequence != kept.seq {
				rt.Fatalf("after %+v it has %s/%d, want %+v", a, row.Result.Birth, row.Result.Sequence, kept)
			}
		}
	})
}
