package store

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// sized is a push of about that many bytes whose reservation expires at ends.
func sized(t testing.TB, key sign.KeyPair, nodeID string, size int, ends time.Time) Push {
	t.Helper()
	r := &workload.Reservation{
		NodeID: nodeID, Type: workload.TypeVolume, Data: json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`),
		Created: ends.Add(-time.Hour), Duration: time.Hour,
	}
	must(t, r.Sign(key.Private()))
	hash, err := r.Hash()
	must(t, err)
	body, err := workload.Encode(r)
	must(t, err)
	return Push{Reservation: r, Hash: hash, Body: body}
}

func answer(n uint64, state workload.State, sequence int64, size int) Answer {
	r := &workload.Result{Created: time.Now().UTC(), ID: fmt.Sprintf("%d-1", n), Type: workload.TypeVolume, State: state, Birth: "b", Sequence: sequence, Error: strings.Repeat("e", size)}
	body, err := workload.EncodeResult(r)
	if err != nil {
		panic(err)
	}
	return Answer{N: n, Result: r, Body: body}
}

// A user who keeps pushing gets no more than one user's share. Ended reservations make
// room, live ones stay; other users can still push, and the counted bytes match the
// stored ones after a restart.
func TestAUserHasSoMuch(t *testing.T) {
	now := time.Now()
	change := func(c *Config) { c.MaxStored, c.Now = 1<<20, func() time.Time { return now } }
	path := filepath.Join(t.TempDir(), "e.db")
	s := open(t, path, change)
	register(t, s, "node")
	greedy, honest := user(t), user(t)
	fill := func(key sign.KeyPair, ends time.Time) (ns []uint64) {
		t.Helper()
		for range 100 {
			p, err := s.Reservations.Reserve(t.Context(), sized(t, key, "node", 60<<10, ends))
			if node.KindOf(err) == node.NoSpace {
				return ns
			}
			must(t, err)
			ns = append(ns, p.N)
		}
		t.Fatal("100 pushes of 60 KiB go into 1 MiB")
		return nil
	}
	first := fill(greedy, now.Add(time.Hour))
	// An eighth of the space is reserved for results.
	must(t, s.Results.Put(t.Context(), answer(first[0], workload.StateOK, 1, 50<<10)))
	if _, err := s.Reservations.Reserve(t.Context(), push(t, honest, "node")); node.KindOf(err) != node.NoSpace && err != nil {
		t.Fatal(err)
	}
	again := sized(t, greedy, "node", 60<<10, now.Add(time.Hour))
	_, err := s.Reservations.Reserve(t.Context(), again)
	if node.KindOf(err) != node.NoSpace {
		t.Fatalf("one more is answered %v", err)
	}
	// Expired reservations with a final result make room; live ones stay.
	now = now.Add(90 * time.Minute)
	for i, n := range first[:4] {
		must(t, s.Results.Put(t.Context(), answer(n, workload.StateExpired, int64(i+2), 0)))
	}
	second := fill(greedy, now.Add(time.Hour))
	if len(second) != 4 {
		t.Errorf("4 that are over make room for %d", len(second))
	}
	for i, n := range first {
		if _, err := s.Reservations.Get(t.Context(), n); (node.KindOf(err) == node.NotExist) != (i < 4) {
			t.Errorf("reservation %d of the first: %v", i, err)
		}
	}
	counted := s.Results.shares.Total()
	must(t, s.Close())
	s = open(t, path, change)
	if got := s.Results.shares.Total(); got != counted || got != s.Results.shares.Held(greedy.ID())+s.Results.shares.Held("node")+s.Results.shares.Held(honest.ID()) {
		t.Errorf("after opening again %d are counted, want %d", got, counted)
	}
}

// On a full disk new reservations, nodes and farms are refused; nodes' results and
// heartbeats, users' deletions and reads still succeed.
func TestAFullDiskKeepsResults(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	s := open(t, filepath.Join(dir, "e.db"))
	register(t, s, "node")
	key := user(t)
	var ns []uint64
	var err error
	for range 200 {
		var p Pushed
		if p, err = s.Reservations.Reserve(t.Context(), sized(t, key, "node", 300<<10, time.Now().Add(time.Hour))); err != nil {
			break
		}
		ns = append(ns, p.N)
	}
	if node.KindOf(err) != node.NoSpace || len(ns) < 10 {
		t.Fatalf("after %d pushes: %v", len(ns), err)
	}
	for _, n := range ns {
		must(t, s.Results.Put(t.Context(), answer(n, workload.StateOK, 1, 1000)))
		must(t, s.Reservations.Delete(t.Context(), n, &workload.Deletion{Created: time.Now()}))
		must(t, s.Results.Put(t.Context(), answer(n, workload.StateDeleted, 2, 1000)))
	}
	beat := Edit{Seen: time.Now(), Apply: func(*wire.Node, bool) error { return nil }}
	must(t, s.Nodes.Update(t.Context(), Writer{Key: "node", At: time.Now()}, "node", beat))
	err = s.Nodes.Update(t.Context(), Writer{}, "new", Edit{Create: true, Seen: time.Now(), Apply: func(*wire.Node, bool) error { return nil }})
	if node.KindOf(err) != node.NoSpace {
		t.Errorf("a new node is answered %v", err)
	}
	if _, err := s.Farms.Create(t.Context(), Writer{}, wire.Farm{Name: "f", Owner: key.ID()}); node.KindOf(err) != node.NoSpace {
		t.Errorf("a new farm is answered %v", err)
	}
	rows, _, err := s.Reservations.Changes(t.Context(), "node", 0, time.Now(), Bound{Rows: 1000, Bytes: 1 << 30})
	must(t, err)
	if len(rows) != len(ns) {
		t.Errorf("%d of %d are read", len(rows), len(ns))
	}
}

func TestNodesAreBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	register(t, s, "node")
	s.Nodes.heads.mu.Lock()
	for i := range int(nodes.Total) - 1 {
		s.Nodes.heads.of[fmt.Sprint(i)] = 0
	}
	s.Nodes.heads.mu.Unlock()
	err := s.Nodes.Update(t.Context(), Writer{}, "new", Edit{Create: true, Seen: time.Now(), Apply: func(*wire.Node, bool) error { return nil }})
	if node.KindOf(err) != node.NoSpace {
		t.Errorf("one more node is answered %v", err)
	}
	register(t, s, "node")
}

// Keys are free, but farms per key and stores (births) per node are limited.
func TestFarmsAndBirthsAreBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	create := func(i int, owner string) error {
		_, err := s.Farms.Create(context.Background(), Writer{}, wire.Farm{Name: fmt.Sprint("farm", i), Owner: owner})
		return err
	}
	for i := range farms.Each {
		must(t, create(int(i), "greedy"))
	}
	if err := create(100, "greedy"); node.KindOf(err) != node.NoSpace {
		t.Errorf("one more farm is answered %v", err)
	}
	must(t, create(101, "honest"))
	register(t, s, "node")
	p, err := s.Reservations.Reserve(t.Context(), push(t, user(t), "node"))
	must(t, err)
	must(t, s.writer.write(t.Context(), func(t *tx) error {
		_, err := t.exec(`INSERT INTO births (node, birth, place) VALUES ('node', 'x', ?)`, births.Each)
		return err
	}))
	a := answer(p.N, workload.StateOK, 1, 0)
	if err := s.Results.Put(t.Context(), a); node.KindOf(err) != node.NoSpace {
		t.Errorf("a result of one more store is answered %v", err)
	}
	a.Result.Birth = "x"
	must(t, s.Results.Put(t.Context(), a))
}
