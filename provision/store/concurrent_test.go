package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// The number of records before the writers begin, and how many each of the four writes.
const (
	stored  = 300
	written = 30
)

// Expiry scans, counters and lists run against writers, as they did when the seed's store
// hung: a scan that took its read lock twice while a writer waited between. A hang would
// exceed the test's own deadline.
func TestScansAndWritersDoNotHang(t *testing.T) {
	s := open(t, store.Config{Root: fastDir(t)})
	start := time.Now().Add(-time.Hour)
	for i := range stored {
		if err := s.Add(volume(fmt.Sprintf("%d-1", i+1), start, time.Duration(i+1)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() { write(t, s, w) })
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				scan(t, s)
			}
		})
	}
	go func() {
		writers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("the store hangs")
	}
	readers.Wait()
	all, err := s.List()
	if err != nil || len(all) != stored+4*written/2 {
		t.Errorf("%d records, %v", len(all), err)
	}
}

func write(t *testing.T, s *store.FSStore, w int) {
	for i := range written {
		id := fmt.Sprintf("%d-%d", 1000+i, w+1)
		rec := record(volume(id, time.Now(), time.Hour), store.Intent)
		if err := put(s, rec); err != nil {
			t.Error(err)
		}
		done, err := one(s, answered(rec, store.Deployed, workload.StateOK))
		if err != nil {
			t.Error(err)
			return
		}
		if err := s.Acknowledge(store.Receipt{ID: id, Sequence: done.Result.Sequence}); err != nil {
			t.Error(err)
		}
		if i%2 == 0 {
			if err := s.Remove(id); err != nil {
				t.Error(err)
			}
		}
	}
}

func scan(t *testing.T, s *store.FSStore) {
	if _, err := s.GetExpired(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.Volume < 0 || c.Volume > stored+4*written {
		t.Errorf("counters %+v", c)
	}
	owed, err := s.Undelivered()
	if err != nil {
		t.Error(err)
	}
	for i := 1; i < len(owed); i++ {
		if owed[i].Result.Sequence <= owed[i-1].Result.Sequence {
			t.Errorf("owed out of order: %d after %d", owed[i].Result.Sequence, owed[i-1].Result.Sequence)
		}
	}
	if _, err := s.List(); err != nil {
		t.Error(err)
	}
}

// A reader doesn't wait for the disk: while a write is stuck in its fsync, queries answer.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	armed := false
	var mu sync.Mutex
	s := open(t, store.Config{Root: fastDir(t), Hook: stuckAt(&mu, &armed, stuck, free)})
	if err := s.Add(volume("1-1", time.Now(), time.Hour)); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	armed = true
	mu.Unlock()
	added := make(chan error, 1)
	go func() { added <- s.Add(volume("2-1", time.Now(), time.Hour)) }()
	<-stuck
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		scan(t, s)
		if ok, err := s.Exists("1-1"); !ok || err != nil {
			t.Errorf("exists: %v, %v", ok, err)
		}
		if ok, _ := s.Exists("2-1"); ok {
			t.Error("what isn't durable yet is seen")
		}
	}()
	select {
	case <-answered:
	case <-time.After(20 * time.Second):
		t.Error("queries wait for the disk")
	}
	close(free)
	if err := <-added; err != nil {
		t.Error(err)
	}
	if ok, _ := s.Exists("2-1"); !ok {
		t.Error("what is durable isn't seen")
	}
}

// Ten thousand records are loaded by one Open, and queries on them are fast.
func TestTenThousandRecords(t *testing.T) {
	root := fastDir(t)
	s := open(t, store.Config{Root: root})
	r := volume("1-1", time.Now(), time.Hour)
	for i := range 10000 {
		r.ID, r.Created = fmt.Sprintf("%d-1", i+1), r.Created.Add(1)
		if err := s.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	start := time.Now()
	s = open(t, store.Config{Root: root})
	t.Logf("10,000 records opened in %s", time.Since(start))
	if n := s.Counters().Volume; n != 10000 {
		t.Errorf("%d volumes", n)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("opening took %s", took)
	}
}
