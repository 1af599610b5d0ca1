package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
)

// Largest file of a tombstone, and most heap that one uses, in bytes.
const (
	tombFile = 2 << 10
	tombHeap = 4 << 10
)

// refused makes the record that lifecycle makes of a reservation with a lot of data,
// refused with a long text.
func refused(i int, data, text string) store.Record {
	r := reservation(workload.TypeContainer, fmt.Sprintf("%d-1", i), data, time.Now(), math.MaxInt64)
	r.Renewal = &workload.Renewal{Expires: r.Created.Add(time.Hour), Signature: bytes.Repeat([]byte{1}, 64)}
	rec := record(r, store.Waiting)
	rec.Since = lifecycle.Since{Floor: time.Now(), Uptime: math.MaxInt64, Known: true, Level: clock.Remove}
	refusal := lifecycle.Event{Kind: lifecycle.Refuse, Err: node.Errorf(node.Refused, "%s", text)}
	rec, _ = lifecycle.Next(rec, refusal, lifecycle.Facts{Time: clock.Reading{Now: time.Now()}})
	return rec
}

// A refused reservation keeps little, whatever it brought: keys and requests cost nothing.
func TestARefusedOneIsSmall(t *testing.T) {
	root := fastDir(t)
	s := open(t, store.Config{Root: root})
	for i, data := range []string{`{}`, `{"x":"` + strings.Repeat("y", 500<<10) + `"}`} {
		for j, text := range []string{"cannot", strings.Repeat("long ", 20000), strings.Repeat("<&\x01\u2028\"\xff", 5000)} {
			rec := refused(10*i+j, data, text)
			if rec.Phase != store.Refused {
				t.Fatalf("it is %s", rec.Phase)
			}
			out := finish(t, s, rec)
			size := len(readFile(t, filepath.Join(root, out.ID())))
			if size > tombFile {
				t.Errorf("%d bytes of data and %d of text leave a file of %d, want at most %d", len(data), len(text), size, tombFile)
			}
			if !strings.HasPrefix(out.Result.Error, workload.ErrorText(text)[:5]) {
				t.Errorf("the answer is %.40q, want what begins with %.5q", out.Result.Error, text)
			}
		}
	}
}

// Ten thousand refused reservations take little heap and disk.
func TestTenThousandRefused(t *testing.T) {
	const many = 10000
	root := fastDir(t)
	s := open(t, store.Config{Root: root})
	data := `{"x":"` + strings.Repeat("y", 64<<10) + `"}`
	one := refused(1, data, strings.Repeat("long ", 2000))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for from := 1; from <= many; from += 100 {
		var batch []store.Record
		for i := from; i < from+100; i++ {
			rec := one.Clone()
			rec.Reservation.ID = fmt.Sprintf("%d-1", i)
			rec.Hash = workload.Hash{byte(i), byte(i >> 8), 1}
			batch = append(batch, rec)
		}
		if _, err := s.Write(batch...); err != nil {
			t.Fatal(err)
		}
	}
	took := heap() - before
	var disk int64
	for _, path := range listing(t, root) {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			disk += info.Size()
		}
	}
	if n := s.Count(store.Refused); n != many {
		t.Fatalf("%d are refused", n)
	}
	t.Logf("%d refused: %d KiB of heap, %d KiB of files", many, took>>10, disk>>10)
	if took > many*tombHeap || disk > many*tombFile {
		t.Errorf("%d refused take %d KiB of heap, %d KiB of files", many, took>>10, disk>>10)
	}
	runtime.KeepAlive(s)
}

// A tombstone's text fits its limit, and isn't cut without need.
func TestShortened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(1, 30).Draw(t, "times"))
		short := store.Shortened(text)
		size := func(s string) int {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return len(b) - len(`""`)
		}
		if size(short) > store.MaxTombText {
			t.Fatalf("%q is %d bytes of JSON", short, size(short))
		}
		if begin, cut := strings.CutSuffix(short, "…"); cut && short != text && !strings.HasPrefix(text, begin) || !cut && short != text {
			t.Fatalf("%q became %q", text, short)
		}
	})
}

// provenClock is a clock whose reading the test sets.
type provenClock struct{ clock.Reading }

func (c *provenClock) Now() (time.Time, bool) { return c.Reading.Now, c.Level >= clock.Stop }
func (c *provenClock) Read() clock.Reading    { return c.Reading }

// The newest of a name is forgotten by proof, not by the explorer's time: by a time that
// another source vouches for too, or by the node's own uptime.
func TestNamesAreForgottenByProof(t *testing.T) {
	start := lifeStart()
	year := 367 * 24 * time.Hour
	for name, tt := range map[string]struct {
		now  clock.Reading
		kept bool
	}{
		"a time to stop by":         {clock.Reading{Now: start.Add(year), Level: clock.Stop}, true},
		"a time that isn't trusted": {clock.Reading{Now: start.Add(10 * year)}, true},
		"a proof, too early":        {clock.Reading{Now: start.Add(365 * 24 * time.Hour), Level: clock.Remove}, true},
		"a proof":                   {clock.Reading{Now: start.Add(year), Level: clock.Remove}, false},
		"not long enough up":        {clock.Reading{Uptime: time.Hour + 365*24*time.Hour}, true},
		"long enough up":            {clock.Reading{Uptime: time.Hour + year}, false},
	} {
		root := fastDir(t)
		clk := &provenClock{clock.Reading{Now: start, Level: clock.Stop, Uptime: time.Hour}}
		s := open(t, store.Config{Root: root, Clock: clk})
		rec := record(network("1-1", "net", start, time.Hour), store.Ended)
		rec.Since = lifecycle.Since{Floor: start, Uptime: time.Hour, Known: true}
		finish(t, s, rec)
		if err := s.Bury("1-1"); err != nil {
			t.Fatal(err)
		}
		clk.Reading = tt.now
		s.Close()
		s = open(t, store.Config{Root: root, Clock: clk})
		finish(t, s, record(volume("2-1", start, time.Hour), store.Ended))
		if err := s.Bury("2-1"); err != nil {
			t.Fatal(err)
		}
		if _, known := s.Newest(rec.Name); known != tt.kept {
			t.Errorf("%s: the newest is known: %v, want %v", name, known, tt.kept)
		}
	}
}

// One burial checks a few of the remembered names, and many burials check all.
func TestManyNamesAreForgotten(t *testing.T) {
	clk := &provenClock{clock.Reading{Now: lifeStart(), Level: clock.Remove}}
	s := open(t, store.Config{Root: fastDir(t), Clock: clk})
	const many = 100
	buried := func(i int, name string) store.NetworkKey {
		rec := record(network(fmt.Sprintf("%d-1", i), name, lifeStart(), time.Hour), store.Ended)
		finish(t, s, rec)
		if err := s.Bury(rec.ID()); err != nil {
			t.Fatal(err)
		}
		return rec.Name
	}
	var keys []store.NetworkKey
	for i := range many {
		keys = append(keys, buried(i, fmt.Sprint("net", i)))
	}
	clk.Reading.Now = lifeStart().Add(400 * 24 * time.Hour)
	known := func() (n int) {
		for _, key := range keys {
			if _, is := s.Newest(key); is {
				n++
			}
		}
		return n
	}
	for i := range many {
		finish(t, s, record(volume(fmt.Sprintf("%d-2", i), lifeStart(), time.Hour), store.Ended))
		before := known()
		if err := s.Bury(fmt.Sprintf("%d-2", i)); err != nil {
			t.Fatal(err)
		}
		if now := known(); before-now > 16 || before > 0 && now == before {
			t.Errorf("one burial forgot %d of %d names", before-now, before)
		}
	}
	if n := known(); n != 0 {
		t.Errorf("%d names are remembered for good", n)
	}
}
