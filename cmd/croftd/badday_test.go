package main_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// settled waits until the node has exactly these volumes, reports them, and the explorer has every
// result.
func settled(w *nodetest.World, n *nodetest.Node, want []*workload.Reservation) {
	w.Helper()
	var s nodetest.Status
	var there map[string]string
	ok := func() bool {
		s, there = n.Status(), n.Subvolumes()
		deployed := 0
		for _, x := range s.Workloads {
			if x.Phase == "deployed" {
				deployed++
			}
		}
		return deployed == len(want) && len(there) == len(want) && s.Undelivered == 0 && len(s.Orphans) == 0 && s.Counters.Volume == int64(len(want))
	}
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("not settled: want %d volumes, there are %v, status %+v", len(want), there, s)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, r := range want {
		if there[r.ID] == "" {
			w.Errorf("%s isn't there", r.ID)
		}
	}
}

func TestKilledAtRandomPointsWhileReservationsFlow(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	n := w.StartNode("n", "--disk", "SSD:"+w.Disk(64))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var live, gone []*workload.Reservation
	notes := map[string]string{}
	for round := range 12 {
		for range 3 {
			live = append(live, w.Reserve(n, time.Hour))
		}
		if round > 1 {
			i := rnd.IntN(len(live))
			w.Delete(live[i])
			gone = append(gone, live[i])
			live = append(live[:i], live[i+1:]...)
		}
		// A start takes about half a second: kills hit it and the work after it.
		time.Sleep(time.Duration(rnd.IntN(1200)) * time.Millisecond)
		n.Kill()
		for _, r := range live {
			if id, there := n.Subvolumes()[r.ID]; there {
				if before, noted := notes[r.ID]; noted && before != id {
					t.Errorf("%s was made twice: %s and %s", r.ID, before, id)
				}
				notes[r.ID] = id
			}
		}
		n.Start()
	}
	n.WaitReady()
	settled(w, n, live)
	for _, r := range live {
		w.Result(r, workload.StateOK)
		if before, noted := notes[r.ID]; noted && n.Subvolumes()[r.ID] != before {
			t.Errorf("%s was made again", r.ID)
		}
	}
	for _, r := range gone {
		w.Result(r, workload.StateDeleted)
	}
	n.Stop()
}

func TestStartsWithoutTheExplorerAfterAReboot(t *testing.T) {
	w, n := whole(t)
	var all []*workload.Reservation
	for i := range 3 {
		r := w.Reserve(n, time.Hour)
		w.Result(r, workload.StateOK)
		n.Leave(r, fmt.Sprint("note ", i))
		all = append(all, r)
	}
	short := w.Expiring(4*time.Second, func(d time.Duration) *workload.Reservation { return w.Reserve(n, d) })
	w.StopExplorer()
	n.Kill()
	n.Reboot()
	n.Start()
	n.WaitReady()
	if got := w.Counters(n).Volume; got < 3 {
		t.Errorf("%d volumes counted from the first value on", got)
	}
	for i, r := range all {
		if got := n.Note(r); got != fmt.Sprint("note ", i) {
			t.Errorf("the note in %s is %q", r.ID, got)
		}
	}
	if ready, ok := n.Ready(); !ok || !strings.Contains(fmt.Sprint(ready.Checks), "explorer warning") {
		t.Errorf("offline: %+v", ready)
	}
	w.Until(nodetest.Soon, "the short one expires without the explorer", func() bool { return len(n.Subvolumes()) == 3 })
	w.StartExplorer()
	w.Result(short, workload.StateExpired)
	fourth := w.Reserve(n, time.Hour)
	w.Result(fourth, workload.StateOK)
	settled(w, n, append(all, fourth))
}

// TestTheExplorerHasABadDay lets the link and the explorer misbehave towards a node.
func TestTheExplorerHasABadDay(t *testing.T) {
	elsewhere := make(chan struct{})
	for _, c := range []struct {
		name string
		mood http.HandlerFunc
	}{
		{"away", func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				conn.Close()
			}
		}},
		{"never answers", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		{"slow", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for range 1000 {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>captive portal</html>")) }},
		{"empty objects", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }},
		{"redirects", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				close(elsewhere)
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }},
		{"busy", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := nodetest.New(t, bins)
			w.StartExplorer()
			p := startProxy(t, w)
			n := w.StartNode("n", "--explorer", p.URL)
			kept := w.Reserve(n, time.Hour)
			w.Result(kept, workload.StateOK)
			n.Leave(kept, "here")
			short := w.Expiring(4*time.Second, func(d time.Duration) *workload.Reservation { return w.Reserve(n, d) })
			p.Mood(c.mood)
			p.CloseClientConnections()
			w.Until(nodetest.Soon, "the short one expires meanwhile", func() bool { return len(n.Subvolumes()) == 1 })
			if _, ready := n.Ready(); !ready {
				t.Error("an explorer in a bad mood makes the node unready")
			}
			if asked := p.Asked(); asked > 150 {
				t.Errorf("the node asked %d times: it hammers", asked)
			}
			p.Mood(nil)
			p.CloseClientConnections()
			w.Result(short, workload.StateExpired)
			w.Result(w.Reserve(n, time.Hour), workload.StateOK)
			if got := n.Note(kept); got != "here" {
				t.Errorf("the note is %q", got)
			}
		})
	}
	t.Cleanup(func() {
		select {
		case <-elsewhere:
			t.Error("the node followed a redirect")
		default:
		}
	})
}

func TestTheExplorerIsKilledAndStartedAgain(t *testing.T) {
	w, n := whole(t)
	first := w.Reserve(n, time.Hour)
	w.Result(first, workload.StateOK)
	w.KillExplorer()
	w.StartExplorer()
	second := w.Reserve(n, time.Hour)
	w.Result(second, workload.StateOK)
	w.Result(first, workload.StateOK)
	settled(w, n, []*workload.Reservation{first, second})
}

// forgetful makes a world whose explorer was restored to a backup from before its second reservation,
// and isn't started yet.
func forgetful(t *testing.T) (w *nodetest.World, n *nodetest.Node, before, after *workload.Reservation) {
	t.Helper()
	w, n = whole(t)
	before = w.Reserve(n, time.Hour)
	w.Result(before, workload.StateOK)
	explorerCommand(t, w, "db", "backup", "--db", w.Path("explorer.db"), w.Path("backup.db"))
	after = w.Reserve(n, time.Hour)
	w.Result(after, workload.StateOK)
	n.Leave(after, "the explorer forgot me")
	w.KillExplorer()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.Path("explorer.db" + suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(w.Path("backup.db"), w.Path("explorer.db")); err != nil {
		t.Fatal(err)
	}
	return w, n, before, after
}

func TestTheExplorerIsRestoredFromAnOldBackup(t *testing.T) {
	w, n, before, after := forgetful(t)
	explorerCommand(t, w, "db", "new-epoch", "--db", w.Path("explorer.db"), "--skip", "1000")
	w.StartExplorer()
	later := w.Reserve(n, time.Hour)
	w.Result(later, workload.StateOK)
	w.Result(before, workload.StateOK)
	if got := n.Note(after); got != "the explorer forgot me" {
		t.Errorf("the note is %q", got)
	}
	there := n.Subvolumes()
	if len(there) != 3 || there[before.ID] == "" || there[later.ID] == "" {
		t.Errorf("on the node: %v", there)
	}
}

func TestExplorerRestoredWithoutNotice(t *testing.T) {
	w, n, before, after := forgetful(t)
	w.StartExplorer()
	// Before the node has polled, a push would advance the explorer's head to the node's cursor:
	// new-epoch exists to prevent that.
	w.Until(nodetest.Soon, "the node goes back with the explorer", func() bool {
		raw, err := os.ReadFile(n.StateDir() + "/store/meta/cursor")
		return err == nil && strings.Contains(string(raw), `"change":1`)
	})
	twin := w.Reserve(n, time.Hour)
	if twin.ID != after.ID {
		t.Fatalf("the explorer gave %s, it was expected to give %s again", twin.ID, after.ID)
	}
	w.Until(nodetest.Soon, "the twin is refused", func() bool { return strings.Contains(n.Output(), "its ID belongs to another one") })
	later := w.Reserve(n, time.Hour)
	w.Result(later, workload.StateOK)
	w.Result(before, workload.StateOK)
	if got := n.Note(after); got != "the explorer forgot me" {
		t.Errorf("the note is %q", got)
	}
	if there := n.Subvolumes(); len(there) != 3 {
		t.Errorf("on the node: %v", there)
	}
}

func explorerCommand(t *testing.T, w *nodetest.World, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), w.Explorer, args...).CombinedOutput(); err != nil {
		t.Fatalf("explorer %v: %v: %s", args, err, out)
	}
}

func TestStoppingTakesItsTimeAndNoMore(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	began := time.Now()
	if err := n.Wait(syscall.SIGTERM, 20*time.Second); err != nil {
		t.Errorf("in order: %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("an idle node took %s to stop", took)
	}
	if len(n.Subvolumes()) != 1 {
		t.Error("stopping touched the volume")
	}

	n.Start()
	n.WaitReady()
	w.KillExplorer()
	n.Croftd("evict", r.ID, "--yes")
	began = time.Now()
	if err := n.Wait(syscall.SIGTERM, 20*time.Second); err != nil {
		t.Errorf("with a result in hand: %v", err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("a node that can't deliver took %s to stop, stop-timeout is 2s", took)
	}
	w.StartExplorer()
	n.Start()
	w.Result(r, workload.StateEvicted)
}

func TestASecondSignalEndsItAtOnce(t *testing.T) {
	w, n := whole(t, "--stop-timeout", "50s")
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	w.KillExplorer()
	n.Croftd("evict", r.ID, "--yes")
	n.Signal(syscall.SIGTERM)
	w.Until(nodetest.Soon, "it stops", func() bool { return strings.Contains(n.Output(), `"stopping"`) })
	err := n.Wait(syscall.SIGINT, 5*time.Second)
	if exitStatus(err) != 130 {
		t.Errorf("ended with %v", err)
	}
}

func TestTheStoreIsLost(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	n.Leave(r, "found again")
	n.Stop()
	if err := os.RemoveAll(n.StateDir() + "/store"); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitReady()
	w.Until(nodetest.Soon, "it says so", func() bool {
		ready, _ := n.Ready()
		return strings.Contains(fmt.Sprint(ready.Checks), "older reservations are refused until `croftd store accept-older`")
	})
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	if got := n.Note(r); got != "found again" {
		t.Errorf("the note is %q", got)
	}
	n.Croftd("store", "accept-older")
	w.Until(nodetest.Soon, "the old one is adopted", func() bool { return n.Status().Counters.Volume == 2 })
	w.Result(r, workload.StateOK)
	if got := n.Note(r); got != "found again" {
		t.Errorf("after its adoption the note is %q", got)
	}
	n.Croftd("store", "refuse-older")
	if s := n.Status(); s.Store.AcceptOlder || s.Counters.Volume != 2 {
		t.Errorf("after refuse-older: accepts older %v, %d volumes", s.Store.AcceptOlder, s.Counters.Volume)
	}
}

func TestADamagedRecordCostsItselfOnly(t *testing.T) {
	w, n := whole(t)
	first, second := w.Reserve(n, time.Hour), w.Reserve(n, time.Hour)
	w.Result(first, workload.StateOK)
	w.Result(second, workload.StateOK)
	n.Leave(first, "kept")
	n.Kill()
	found := findFile(t, n.StateDir()+"/store", first.ID)
	if err := os.WriteFile(found, []byte(`{"torn`), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitReady()
	s := n.Status()
	if len(s.Store.Quarantined) != 1 || !strings.Contains(s.Store.Quarantined[0], first.ID) {
		t.Errorf("quarantined: %v", s.Store.Quarantined)
	}
	if got := n.Note(first); got != "kept" {
		t.Errorf("the note is %q", got)
	}
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
}

// findFile finds the file of that name below dir.
func findFile(t *testing.T, dir, name string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-type", "f", "-name", name+"*").Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 1 {
		t.Fatalf("%s is %d times below %s: %v", name, len(lines), dir, err)
	}
	return lines[0]
}

func checksText(r nodetest.Readiness) string { return fmt.Sprint(r.Checks) }

func TestTheDiskIsFull(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	state := w.Path("n", "s")
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("croft-test", state, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	n := w.StartNode("n", "--disk", "SSD:"+w.Disk(8))
	before := w.Reserve(n, time.Hour)
	w.Result(before, workload.StateOK)
	filler := state + "/filler"
	if _, err := fill(filler, 1<<30); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the state folder can't be filled: %v", err)
	}
	during := w.Reserve(n, time.Hour)
	w.Until(nodetest.Soon, "the node says that it can't remember", func() bool { return strings.Contains(n.Output(), "no space left on device") })
	if there := n.Subvolumes(); len(there) != 1 {
		t.Errorf("something was made that can't be remembered: %v", there)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.Result(during, workload.StateOK)
	settled(w, n, []*workload.Reservation{before, during})
	n.Stop()
}
