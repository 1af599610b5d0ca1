package store_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/store"
)

func benchConfig(b *testing.B, sequential bool) store.Config {
	return store.Config{Dir: b.TempDir(), Sequential: sequential, Layout: store.V2(), Log: zerolog.Nop()}
}

func benchOpen(b *testing.B, cfg store.Config) *store.Store {
	b.Helper()
	s, err := store.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// benchKey is the n-th key of 16 bytes; in sequential mode its id.
func benchKey(k []byte, n uint64, sequential bool) []byte {
	k = k[:0]
	if sequential {
		return binary.LittleEndian.AppendUint64(k, n)
	}
	k = binary.BigEndian.AppendUint64(k, n*0x9e3779b97f4a7c15)
	return binary.BigEndian.AppendUint64(k, n)
}

// fill stores n values of 100 bytes, with a Flush for every 16.
func fill(b *testing.B, s *store.Store, n uint64, sequential bool) {
	b.Helper()
	key, value := make([]byte, 0, 16), make([]byte, 100)
	for i := range n {
		key = benchKey(key, i, false)
		if sequential {
			key = key[:0]
		}
		binary.LittleEndian.PutUint64(value, i)
		if _, _, err := s.Set(key, value, store.SetOptions{At: 1}); err != nil {
			b.Fatal(err)
		}
		if i%16 == 15 {
			if err := s.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
}

func rss(b *testing.B) float64 {
	b.Helper()
	debug.FreeOSMemory()
	return status(b, "VmRSS:")
}

func status(b *testing.B, name string) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}

func modes(b *testing.B, f func(b *testing.B, sequential bool)) {
	b.Run("user", func(b *testing.B) { f(b, false) })
	b.Run("seq", func(b *testing.B) { f(b, true) })
}

// BenchmarkStart prints what a store of a million and of ten million entries takes.
func BenchmarkStart(b *testing.B) {
	for _, n := range []uint64{1e6, 1e7} {
		b.Run(strconv.Itoa(int(n)), func(b *testing.B) {
			modes(b, func(b *testing.B, sequential bool) { benchStart(b, n, sequential) })
		})
	}
}

func benchStart(b *testing.B, n uint64, sequential bool) {
	cfg := benchConfig(b, sequential)
	empty := rss(b)
	s := benchOpen(b, cfg)
	from := cpu(b)
	fill(b, s, n, sequential)
	set, full := (cpu(b)-from)/time.Duration(n), status(b, "VmRSS:")
	s.Discard()
	from = cpu(b)
	s = benchOpen(b, cfg)
	crash := cpu(b) - from
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	var start time.Duration
	var stats store.Stats
	var more float64
	for b.Loop() {
		from := cpu(b)
		s = benchOpen(b, cfg)
		b.StopTimer()
		start = cpu(b) - from
		stats = s.Stats()
		more = rss(b) - empty
		s.Discard()
		b.StartTimer()
	}
	if stats.Entries != n {
		b.Fatal(stats)
	}
	b.ReportMetric(float64(set.Nanoseconds()), "cpu-ns/set")
	b.ReportMetric(full, "MiB-after-fill")
	b.ReportMetric(more, "MiB-more-after-start")
	b.ReportMetric(crash.Seconds()*1e3, "cpu-ms-start-after-crash")
	b.ReportMetric(start.Seconds()*1e3, "cpu-ms-start")
	b.ReportMetric(float64(stats.Disk)/float64(n), "disk-B/entry")
}

// cpu is the processor time that the process took: other than the clock it
// says something when the machine is busy.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGet reads random entries of a million.
func BenchmarkGet(b *testing.B) {
	modes(b, func(b *testing.B, sequential bool) {
		s := benchOpen(b, benchConfig(b, sequential))
		defer s.Discard()
		fill(b, s, 1e6, sequential)
		key := make([]byte, 0, 16)
		b.ReportAllocs()
		for b.Loop() {
			key = benchKey(key, rand.Uint64N(1e6), sequential)
			if _, found, err := s.Get(key); !found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
}

// BenchmarkSet stores values of 1 KiB: new ones, and over random ones of a million; 16 a Flush.
func BenchmarkSet(b *testing.B) {
	modes(b, func(b *testing.B, sequential bool) {
		b.Run("new", func(b *testing.B) { benchSet(b, sequential, 0) })
		b.Run("over", func(b *testing.B) { benchSet(b, sequential, 1e6) })
	})
}

func benchSet(b *testing.B, sequential bool, over uint64) {
	s := benchOpen(b, benchConfig(b, sequential))
	defer s.Discard()
	fill(b, s, over, sequential)
	key, value := make([]byte, 0, 16), make([]byte, 1024)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		i++
		switch {
		case over > 0:
			key = benchKey(key, rand.Uint64N(over), sequential)
		case sequential:
			key = key[:0]
		default:
			key = benchKey(key, i, false)
		}
		binary.LittleEndian.PutUint64(value, i)
		if _, _, err := s.Set(key, value, store.SetOptions{At: 1}); err != nil {
			b.Fatal(err)
		}
		if i%16 == 0 {
			if err := s.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkScan walks a million entries.
func BenchmarkScan(b *testing.B) {
	modes(b, func(b *testing.B, sequential bool) {
		s := benchOpen(b, benchConfig(b, sequential))
		defer s.Discard()
		fill(b, s, 1e6, sequential)
		e, _, err := s.First()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			var found bool
			if e, found, err = s.Next(e); err != nil {
				b.Fatal(err)
			}
			if !found {
				e, _, _ = s.First()
			}
		}
	})
}
