//go:build boot

package e2e_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
)

// TestWatchdog stops the engine's process, as if it hung: it is started again, and no workload has noticed. Then it stops init: the
// hardware's watchdog starts the machine again, and the workloads run.
func TestWatchdog(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: machine.Boot{Image: s.medium("croft.iso")}, watchdog: true})
	st.begin()
	st.p.note("before the engine hangs")
	runs := st.running()
	st.n.m.Until(patience, "watchdog: iTCO_wdt") // the chipset's, not the kernel's own

	engine, ok := st.n.hand.the("croftd", "provision")
	if !ok {
		t.Fatal("the engine doesn't run as one process")
	}
	began := time.Now()
	st.n.hand.signal(engine, syscall.SIGSTOP)
	st.n.m.Until(patience, "the engine is stuck: its process is ended, and starts again")
	st.until("the engine turns again", func() error {
		is, ready := st.n.hand.ready()
		if now, ok := st.n.hand.the("croftd", "provision"); !ready || !ok || now.is() == engine.is() {
			return fmt.Errorf("the engine is %+v, the node answers %s", now, is)
		}
		return nil
	})
	t.Logf("the engine turns again %s after its process was stopped", since(began))
	if now := st.running(); now != runs {
		t.Errorf("the workloads were %s, they are %s", runs, now)
	}
	st.works()
	st.n.hand.sync()

	was := st.n.boot()
	init := slices.DeleteFunc(st.n.hand.processes(), func(p process) bool { return p.Name != "init" || p.Parent != 1 })
	if len(init) != 1 {
		t.Fatalf("below process 1, init is %+v, want one process", init)
	}
	began = time.Now()
	st.n.hand.signal(init[0], syscall.SIGSTOP)
	st.n.startsAgain(was, 2*patience) // the watchdog takes up to two of its minutes
	t.Logf("the node is ready again %s after init was stopped", since(began))
	st.p.answers()
	st.p.noted("before the engine hangs")
	st.n.settled(st.counts)
	st.end()
}
