package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func testLimits() limits {
	return limits{size: MinSize, files: 2, slow: defaultSlow, pool: newPool(), scheduler: newScheduler()}
}

// here is a container in this process.
func here(t *testing.T, dir string, l limits) *container {
	t.Helper()
	p := place{fifos: filepath.Join(dir, "c", "1-1"), files: filepath.Join(dir, "logs", "1-1")}
	must(t, p.make(""))
	c, err := openContainer("1-1", p, l, zerolog.Nop())
	must(t, err)
	return c
}

func (c *container) finish(t *testing.T, all bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, c.end(ctx, all))
}

// A carrier can be killed between any two of its steps, and in the middle of a
// write: each state that it can leave is made by hand.
func TestSuccessorFinishesWrites(t *testing.T) {
	const done, begun, taken = "one\ntwo\n", "three\nfour\n", "five\nsi"
	at := time.Unix(1_700_000_000, 5)
	wrote, _ := render(nil, []byte(done), at, stdout, false)
	writes, _ := render(nil, []byte(begun), at, stdout, false)
	type state struct {
		name         string
		data         string
		from, to     int
		number, offs int64
		log          string
	}
	states := []state{
		{"taken, nothing noted", done + begun + taken, 0, len(done), 0, 0, string(wrote)},
		{"emptied, not noted", "", 0, 1 << 20, 0, 0, string(wrote) + string(writes)},
	}
	for n := 0; n <= len(writes); n += 7 {
		states = append(states, state{fmt.Sprint("noted, ", n, " bytes written"), done + begun + taken, len(done), len(done + begun), 0, int64(len(wrote)), string(wrote) + string(writes[:n])})
	}
	other, _ := render(nil, []byte("other\n"), at, stderr, false)
	states = append(states, state{"written, and another stream's after it", done + begun + taken, len(done), len(done + begun), 0, int64(len(wrote)), string(wrote) + string(writes) + string(other)})
	for _, st := range states {
		t.Run(st.name, func(t *testing.T) {
			dir := folder(t)
			c := here(t, dir, testLimits())
			c.finish(t, false)
			s, err := openSpool(filepath.Join(c.place.fifos, stdout+".spool"))
			must(t, err)
			must(t, s.note(head{From: int64(st.from), To: int64(st.to), At: at.UnixNano(), Number: st.number, Offset: st.offs}))
			_, err = s.file.WriteAt([]byte(st.data), dataAt)
			must(t, err)
			s.close()
			must(t, os.WriteFile(fileName(c.place.files, 0), []byte(st.log), 0o600))
			for range 2 { // another one finds nothing to do
				here(t, dir, testLimits()).finish(t, true)
			}
			lines, err := Last(filepath.Join(dir, "logs"), "1-1", 100)
			must(t, err)
			got := strings.Join(texts(lines), " ")
			want := "one two three four five si"
			if st.data == "" {
				want = "one two three four"
			}
			if got = strings.Replace(got, " other", "", 1); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestManySuccessorsDropNothing: however many carriers are killed after they took output and before they wrote it, the next one has no more than a spool's
// limit, all of which it writes, followed by what the FIFO has.
func TestManySuccessorsDropNothing(t *testing.T) {
	for _, all := range []bool{false, true} {
		dir := folder(t)
		c := here(t, dir, testLimits())
		c.finish(t, false)
		fifo, err := openFIFO(filepath.Join(c.place.fifos, stdout))
		must(t, err)
		defer fifo.Close()
		wrote, number := 0, 0
		for range 5 { // each leaves the FIFO full
			for {
				must(t, fifo.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
				n, err := fmt.Fprintf(fifo, "%0999d\n", number)
				if wrote += n; n < 1000 {
					if n > 0 {
						t.Fatalf("%d bytes of a line are in the FIFO", n)
					}
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Fatal(err)
					}
					break
				}
				number++
			}
			s, err := c.openStream(stdout, testLimits())
			must(t, err)
			_, _ = s.fillNow()
			s.close()
		}
		makeRoom(filepath.Join(dir, "c"), 1<<30, zerolog.Nop())
		s, err := openSpool(filepath.Join(c.place.fifos, stdout+".spool"))
		must(t, err)
		if p := s.pending(); p <= limitSpool.Each/2 || p > limitSpool.Each || s.head.Bytes > 0 {
			t.Errorf("the spool has %d bytes, %d were dropped", p, s.head.Bytes)
		}
		s.close()
		next := here(t, dir, testLimits())
		if !all {
			deadline := time.Now().Add(time.Minute)
			for count(t, dir) < number {
				if time.Now().After(deadline) {
					t.Fatalf("%d lines are in the log, want %d", count(t, dir), number)
				}
				time.Sleep(time.Millisecond)
			}
		}
		next.finish(t, all)
		lines, err := Last(filepath.Join(dir, "logs"), "1-1", 10_000)
		must(t, err)
		if len(lines) != number || wrote != 1000*number {
			t.Errorf("%d lines, want %d of %d bytes", len(lines), number, wrote)
		}
		for i, text := range texts(lines) {
			if text != fmt.Sprintf("%0999d", i) {
				t.Fatalf("line %d is %.80s", i, text)
			}
		}
	}
}

// count is how many lines the log has.
func count(t *testing.T, dir string) int {
	t.Helper()
	lines, err := Last(filepath.Join(dir, "logs"), "1-1", 10_000)
	must(t, err)
	return len(lines)
}

func TestADamagedSpoolIsBegunAnew(t *testing.T) {
	for name, raw := range map[string]string{"empty": "", "short": "croft", "zeros": strings.Repeat("\x00", 10000), "noise": strings.Repeat("noise", 3000)} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			here(t, dir, testLimits()).finish(t, false)
			must(t, os.WriteFile(filepath.Join(dir, "c", "1-1", stdout+".spool"), []byte(raw), 0o600))
			c := here(t, dir, testLimits())
			say(t, shim(t, c.place.paths().Stdout), "still here\n")
			c.finish(t, true)
			lines, err := Last(filepath.Join(dir, "logs"), "1-1", 10)
			if err != nil || strings.Join(texts(lines), "|") != "still here" {
				t.Errorf("%q (%v)", texts(lines), err)
			}
		})
	}
}

func TestATornLineIsMended(t *testing.T) {
	dir := folder(t)
	here(t, dir, testLimits()).finish(t, false)
	must(t, os.WriteFile(filepath.Join(dir, "logs", "1-1", "0.log"), []byte("2026-01-01T00:00:00Z stdout F good\n2026-01-01T00:00"), 0o600))
	c := here(t, dir, testLimits())
	say(t, shim(t, c.place.paths().Stdout), "after\n")
	c.finish(t, true)
	lines, err := Last(filepath.Join(dir, "logs"), "1-1", 10)
	if err != nil || strings.Join(texts(lines), "|") != "good|croft: 17 bytes of this log can't be read and are left out here|after" {
		t.Errorf("%q (%v)", texts(lines), err)
	}
}

// Output written while no carrier ran, by a container that has ended.
func TestOutputWithoutACarrierIsKept(t *testing.T) {
	c := site(t, MinSize, 2)
	keeper := NewKeeper(c)
	t.Cleanup(keeper.Close)
	fifos, err := keeper.Open(t.Context(), "1-1", "")
	must(t, err)
	client, err := keeper.Carrier(t.Context())
	must(t, err)
	client.kill(t)
	out, err := os.OpenFile(fifos.Stdout, os.O_RDWR, 0)
	must(t, err)
	say(t, out, "last words")
	must(t, out.Close())
	ids, err := keeper.List(t.Context())
	if err != nil || fmt.Sprint(ids) != "[1-1]" {
		t.Errorf("%v %v", ids, err)
	}
	until(t, "the last words", func() bool { return strings.Join(texts(last(t, c, "1-1", 10)), "|") == "last words" })
}
