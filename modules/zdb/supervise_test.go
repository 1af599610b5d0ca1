package zdb_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/pkg/workload"
)

// knocker connects again and again, and keeps what went wrong and how long the
// longest had to wait.
type knocker struct {
	stop    chan struct{}
	knocks  atomic.Int64
	failed  chan error
	longest time.Duration
	done    sync.WaitGroup
}

func knock(port uint16) *knocker {
	k := &knocker{stop: make(chan struct{}), failed: make(chan error, 1000)}
	k.done.Go(func() {
		for {
			select {
			case <-k.stop:
				return
			default:
			}
			start := time.Now()
			if err := ping(port); err != nil {
				select {
				case k.failed <- err:
				default:
				}
			}
			k.longest = max(k.longest, time.Since(start))
			k.knocks.Add(1)
		}
	})
	return k
}

// end returns what went wrong.
func (k *knocker) end() []error {
	close(k.stop)
	k.done.Wait()
	close(k.failed)
	var out []error
	for err := range k.failed {
		out = append(out, err)
	}
	return out
}

// more waits until there were some more.
func (k *knocker) more(t *testing.T, n int64) {
	t.Helper()
	until := k.knocks.Load() + n
	eventually(t, func() bool { return k.knocks.Load() >= until }, func() any { return k.knocks.Load() })
}

// TestNobodyIsRefusedWhileTheZDBIsAway: who comes waits in the queue. Only who
// was connected at the moment when it was killed is cut off.
func TestNobodyIsRefusedWhileTheZDBIsAway(t *testing.T) {
	w := newWorld(t)
	at := w.attach(one, workload.ZDBUser)
	k := knock(at.Port)
	const rounds = 10
	for range rounds {
		k.more(t, 20)
		w.kill(one)
		w.start(one, workload.ZDBUser)
	}
	k.more(t, 20)
	cut := k.end()
	for _, err := range cut {
		if errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("refused: %v", err)
		}
	}
	if len(cut) > rounds {
		t.Errorf("%d of %d failed in %d rounds: %v", len(cut), k.knocks.Load(), rounds, cut)
	}
	t.Logf("%d connections, %d cut off, the longest took %s", k.knocks.Load(), len(cut), k.longest)
}

// TestRestartLatency measures from when the zdb is ready to when it answers.
func TestRestartLatency(t *testing.T) {
	w := newWorld(t)
	at := w.attach(one, workload.ZDBUser)
	var all []time.Duration
	for range 10 {
		w.kill(one)
		w.drift(one, "doesn't answer")
		w.start(one, workload.ZDBUser)
		p := w.zdbs[one]
		eventually(t, func() bool { return strings.Contains(p.said.String(), "ready") }, func() any { return p.said })
		start := time.Now()
		must(t, ping(at.Port))
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	if all[len(all)/2] > time.Second {
		t.Errorf("it took %s", all)
	}
	t.Logf("median %s, most %s", all[len(all)/2], all[len(all)-1])
}

// TestNobodyNoticesTheAgentsRestart: not even connected clients.
func TestNobodyNoticesTheAgentsRestart(t *testing.T) {
	w := newWorld(t)
	at := w.attach(one, workload.ZDBUser)
	k := knock(at.Port)
	for range 20 {
		w.restart()
		k.more(t, 3)
		w.drift(one, "")
	}
	if cut := k.end(); len(cut) != 0 {
		t.Errorf("of %d: %v", k.knocks.Load(), cut)
	}
}

// TestNobodyNoticesAKilledAgent: it ends as kill -9 does, in whatever it does.
func TestNobodyNoticesAKilledAgent(t *testing.T) {
	w := newWorld(t)
	w.cfg.LastPort = w.cfg.FirstPort
	before := w.attach(one, workload.ZDBUser)
	w.close()
	k := knock(before.Port)
	for i := range 20 {
		a := w.agent(i%3 != 0)
		k.more(t, int64(1+i%4))
		must(t, a.Process.Kill())
		_ = a.Wait()
		k.more(t, 1)
	}
	if cut := k.end(); len(cut) != 0 {
		t.Errorf("of %d: %v", k.knocks.Load(), cut)
	}
	w.open()
	w.drift(one, "")
	if after := w.server(one); after.Port != before.Port {
		t.Errorf("it is %+v, was %+v", after, before)
	}
}

// agent starts the module in a process of its own, and may wait until it has all
// in hand.
func (w *world) agent(wait bool) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+agentRole, stateVariable+"="+w.cfg.StateDir, fmt.Sprintf("%s=%d", portVariable, w.cfg.FirstPort))
	cmd.Stderr = w.log
	out, err := cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !wait {
		return cmd
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		w.t.Fatalf("the agent says %q, %v", line, err)
	}
	return cmd
}

// listeners are those that a zdb has.
func (w *world) listeners(container string) []*os.File {
	w.t.Helper()
	conn, err := handover.Dial(w.t.Context(), w.data(container)+"/handover.sock")
	must(w.t, err)
	defer conn.Close()
	out := conn.Listeners()
	w.t.Cleanup(func() {
		for _, f := range out {
			f.Close()
		}
	})
	return out
}

// TestOneListenerIsEnough, however often all are started again.
func TestOneListenerIsEnough(t *testing.T) {
	w := newWorld(t)
	spec := w.start(one, workload.ZDBUser)
	w.attachSpec(spec)
	for range 5 {
		w.restart()
		w.attachSpec(spec)
		w.server(one)
	}
	if got := w.listeners(one); len(got) != 1 {
		t.Errorf("the zdb has %d listeners", len(got))
	}
}

// notReached is in the module's log when a zdb's listener has ended.
const notReached = "isn't reached at its port"

// TestAListenerThatDied, by a zdb's doing, is seen, and made again by Attach.
func TestAListenerThatDied(t *testing.T) {
	w := newWorld(t)
	spec := w.start(one, workload.ZDBUser)
	before := w.attachSpec(spec)
	for range 3 {
		raw, err := w.listeners(one)[0].SyscallConn()
		must(t, err)
		seen := strings.Count(w.log.String(), notReached)
		must(t, raw.Control(func(fd uintptr) { must(t, unix.Shutdown(int(fd), unix.SHUT_RDWR)) }))
		// The module may have mended it before anybody asks.
		eventually(t, func() bool {
			return strings.Contains(w.server(one).Drift, "listens on its port") || strings.Count(w.log.String(), notReached) > seen
		}, func() any { return w.server(one) })
		if after := w.attachSpec(spec); after != before {
			t.Errorf("it is %+v, was %+v", after, before)
		}
		must(t, ping(before.Port))
	}
}

// TestMendedWithoutACall: nobody attaches again, or looks.
func TestMendedWithoutACall(t *testing.T) {
	w := newWorld(t)
	before := w.attach(one, workload.ZDBUser)
	raw, err := w.listeners(one)[0].SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { must(t, unix.Shutdown(int(fd), unix.SHUT_RDWR)) }))
	eventually(t, func() bool { return ping(before.Port) == nil }, func() any { return w.server(one) })
}
