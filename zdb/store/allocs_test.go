package store_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/zdb/store"
)

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		cfg := config(t, store.V2(), sequential)
		// The clock stands: nothing begins in the background, where it may allocate.
		cfg = cfg.AtTime(func() time.Time { return time.Unix(0, 0) })
		s := open(t, cfg)
		value, key := make([]byte, 1000), make([]byte, 0, 16)
		n := uint64(0)
		name := func(n uint64) []byte {
			if sequential {
				return binary.LittleEndian.AppendUint64(key[:0], n)
			}
			return binary.LittleEndian.AppendUint64(append(key[:0], "keys-of-"...), n)
		}
		over := func() {
			n++
			binary.LittleEndian.PutUint64(value, n)
			if _, _, err := s.Set(name(n%100), value, store.SetOptions{At: 1}); err != nil {
				t.Fatal(err)
			}
			if n%4 == 0 {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range uint64(100) {
			k := name(i)
			if sequential {
				k = nil
			}
			if _, _, err := s.Set(k, value, store.SetOptions{At: 1}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2000 {
			over() // buffers get their size
		}
		if got := testing.AllocsPerRun(2000, over); got != 0 {
			t.Errorf("sequential %t: Set and Flush allocate %v times", sequential, got)
		}
		get := func() {
			n++
			if _, found, err := s.Get(name(n % 100)); !found || err != nil {
				t.Fatal(found, err)
			}
		}
		if got := testing.AllocsPerRun(2000, get); got != 0 {
			t.Errorf("sequential %t: Get allocates %v times", sequential, got)
		}
	}
}

// TestBackgroundJobs has checkpoints, cleaning and packing run on their own goroutines, for the race detector.
func TestBackgroundJobs(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		var jobs sync.WaitGroup
		cfg := config(t, store.V2(), sequential)
		cfg.SegmentSize, cfg.MaxSize = 32<<10, 256<<10
		cfg.Shared = store.NewShared(3) // so that files are closed and opened all the time
		cfg.Background = func(f func()) { jobs.Go(f) }
		cfg = cfg.WithChunks(200)
		s := open(t, cfg)
		want := map[string]string{}
		for i := range 8000 {
			key := fmt.Sprintf("key-%d", i*7919%300)
			if sequential {
				key = ""
				if i >= 300 {
					key = id(byte(i * 7919 % 200))
				}
			}
			value := fmt.Sprintf("%d-%0*d", i, i%400, 0)
			got, _, err := s.Set([]byte(key), []byte(value), store.SetOptions{At: uint32(i)})
			if err != nil {
				t.Fatal(i, err)
			}
			want[string(got)] = value
			if i%5 == 0 {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if i%50 == 0 {
				if _, err := s.Work(time.Now(), 4096); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 2 {
			for k, v := range want {
				if got, found, err := s.Get([]byte(k)); err != nil || !found || string(got) != v {
					t.Fatalf("Get(%q): %q, %t, %v; want %q", k, got, found, err, v)
				}
			}
			s = again(t, s, cfg)
		}
		s.Discard()
		jobs.Wait()
	}
}
