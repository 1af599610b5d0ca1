package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// holding provisions at once and lists its workloads.
type holding struct {
	mu   sync.Mutex
	have map[string]bool
	// slow, when set, blocks each decommission.
	slow <-chan struct{}
}

func (h *holding) Provision(_ context.Context, r *workload.Reservation) (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have[r.ID] = true
	return nil, nil
}

func (h *holding) Decommission(_ context.Context, r *workload.Reservation) error {
	if h.slow != nil {
		<-h.slow
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.have, r.ID)
	return nil
}

func (h *holding) Remove(ctx context.Context, orphan provisioner.Label) error {
	return h.Decommission(ctx, &workload.Reservation{ID: orphan.ID})
}

func (h *holding) List(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id := range h.have {
		ids = append(ids, id)
	}
	return ids, nil
}

// fullNode is an engine over a store that already has records. Its disk is memory, so that the engine's
// own work is measured.
type fullNode struct {
	push    *source.Push
	records *store.FSStore
	key     sign.KeyPair
	user    sign.KeyPair
	next    int
	end     func()
}

func newFullNode(b *testing.B, records int, types map[workload.Type]provisioner.Provisioner) *fullNode {
	b.Helper()
	dir, err := os.MkdirTemp(memoryFolder(b), "croft-bench-")
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(store.Config{Root: dir, NewNode: true})
	if err != nil {
		b.Fatal(err)
	}
	n := &fullNode{push: source.NewPush(zerolog.Nop()), records: s, key: benchKey(b), user: benchKey(b), next: records + 1}
	n.fill(b, records, types)
	judge, err := verify.New(verify.Config{Policy: verify.Policy{NodeID: n.key.ID()}, Clock: trusted{}, Store: s, Data: workload.Validate})
	if err != nil {
		b.Fatal(err)
	}
	engine, err := provision.NewEngine(provision.Config{
		Records: s, Sources: []source.Source{n.push}, Policy: judge, Feedback: silent{}, Clock: trusted{}, Provisioners: types,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	n.end = func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		_ = s.Close()
		_ = os.RemoveAll(dir)
	}
	for !engine.Ready() {
		time.Sleep(time.Millisecond)
	}
	return n
}

// memoryFolder is a folder in memory, where fsync is free, if the machine has one.
func memoryFolder(b *testing.B) string {
	b.Helper()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return b.TempDir()
}

// fill writes records, ten a user: half of them are deployed, half have ended.
func (n *fullNode) fill(b *testing.B, records int, types map[workload.Type]provisioner.Provisioner) {
	b.Helper()
	var recs []store.Record
	for i := range records {
		r := n.reserve(b, workload.TypeVolume, 100*24*time.Hour)
		r.ID = strconv.Itoa(i+1) + "-1"
		r.User = "user " + strconv.Itoa(i/10)
		hash := workload.Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}
		rec := store.Record{Reservation: r, Hash: hash, Phase: store.Deployed, Admitted: true, Begun: true, Deployed: time.Now()}
		if i%2 == 1 {
			rec.Phase, rec.End = store.Ended, workload.StateDeleted
		} else if h, ok := types[workload.TypeVolume].(*holding); ok {
			h.have[r.ID] = true
		}
		recs = append(recs, rec)
	}
	for len(recs) > 0 {
		part := recs[:min(256, len(recs))]
		if _, err := n.records.Write(part...); err != nil {
			b.Fatal(err)
		}
		recs = recs[len(part):]
	}
}

func (n *fullNode) reserve(b *testing.B, t workload.Type, lasts time.Duration) *workload.Reservation {
	b.Helper()
	data := `{"size":1,"type":"SSD"}`
	if t == workload.TypeContainer {
		data = `{"flist":"https://hub.example/x","env":{},"entrypoint":"/bin/sh","interactive":false,"mounts":[],
			"network":{"network_id":"net1","ips":["10.1.1.10"]},"capacity":{"cpu":1,"memory":64}}`
	}
	r := &workload.Reservation{NodeID: n.key.ID(), Type: t, Data: json.RawMessage(data), Created: time.Now(), Duration: lasts}
	if err := r.Sign(n.user.Private()); err != nil {
		b.Fatal(err)
	}
	return r
}

// arrivals is the time of count arrivals, one after the other, each until it is durable.
func (n *fullNode) arrivals(b *testing.B, count int) time.Duration {
	b.Helper()
	all := make([]*workload.Reservation, count)
	for i := range all {
		all[i] = n.reserve(b, workload.TypeVolume, time.Hour)
		all[i].ID = strconv.Itoa(n.next) + "-1"
		n.next++
	}
	start := time.Now()
	for _, r := range all {
		if err := n.push.Push(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// BenchmarkArrival compares an arrival's cost on a node that remembers 10,000 reservations with one
// that remembers 100. Both take turns.
func BenchmarkArrival(b *testing.B) {
	const rounds, each = 20, 25
	var few, many time.Duration
	for b.Loop() {
		few, many = 0, 0
		small := newFullNode(b, 100, map[workload.Type]provisioner.Provisioner{workload.TypeVolume: &holding{have: map[string]bool{}}})
		large := newFullNode(b, 10000, map[workload.Type]provisioner.Provisioner{workload.TypeVolume: &holding{have: map[string]bool{}}})
		small.arrivals(b, each)
		large.arrivals(b, each)
		for range rounds {
			few += small.arrivals(b, each)
			many += large.arrivals(b, each)
		}
		small.end()
		large.end()
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / (rounds * each) }
	report(b, "an arrival at 10,000 records", "≤ 1.2 × one at 100", fmt.Sprintf("%.0f µs of %.0f µs", per(many), per(few)), per(many)/per(few))
}

// BenchmarkExpiryBesideAHangingModule compares the removal of 50 volumes that expire together, beside
// as many containers whose module hangs, with 50 volumes alone.
func BenchmarkExpiryBesideAHangingModule(b *testing.B) {
	var alone, beside time.Duration
	for b.Loop() {
		alone = expiry(b, false)
		beside = expiry(b, true)
	}
	report(b, "50 volumes expire, another module hangs", "≤ 1.5 × alone",
		fmt.Sprintf("%s of %s", beside.Round(time.Millisecond), alone.Round(time.Millisecond)), beside.Seconds()/alone.Seconds())
}

// expiry is the time from the common expiry of 50 volumes until all are removed.
func expiry(b *testing.B, hangs bool) time.Duration {
	b.Helper()
	release := make(chan struct{})
	volumes, boxes := &holding{have: map[string]bool{}}, &holding{have: map[string]bool{}, slow: release}
	n := newFullNode(b, 0, map[workload.Type]provisioner.Provisioner{workload.TypeVolume: volumes, workload.TypeContainer: boxes})
	const count = 50
	lasts := 3 * time.Second
	began := time.Now()
	for i := range 2 * count {
		t := workload.TypeVolume
		if i%2 == 0 {
			if t = workload.TypeContainer; !hangs {
				continue
			}
		}
		r := n.reserve(b, t, lasts-time.Since(began))
		r.ID = strconv.Itoa(n.next) + "-1"
		n.next++
		if err := n.push.Push(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
	end := began.Add(lasts)
	for {
		ids, _ := volumes.List(context.Background())
		if len(ids) == 0 && time.Now().After(end) {
			break
		}
		if time.Since(end) > time.Minute {
			b.Fatalf("%d volumes are left a minute after their end", len(ids))
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(end)
	close(release)
	n.end()
	return took
}
