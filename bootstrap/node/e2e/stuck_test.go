//go:build boot && long

package e2e_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestStuckEngine stops every process of the engine, as if none of them ever turned: after ten minutes the machine starts again by itself, and the
// workloads run. Until then none has noticed.
func TestStuckEngine(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: direct(t)})
	st.begin()
	st.p.note("before the engine hangs")
	runs := st.running()
	began := time.Now()
	stopped := map[string]bool{}
	s.within(4*patience, "the machine starts again", func() error {
		if st.n.m.Prints("the engine is stuck: the machine starts again") {
			return nil
		}
		if engine, ok := st.n.hand.the("croftd", "provision"); ok && !stopped[engine.is()] {
			st.n.hand.signal(engine, syscall.SIGSTOP) // before it turns
			stopped[engine.is()] = true
			if now := st.running(); now != runs {
				t.Errorf("the workloads were %s, they are %s", runs, now)
			}
		}
		return fmt.Errorf("%d processes of the engine were stopped", len(stopped))
	})
	t.Logf("the machine starts again %s after the first of %d processes of the engine was stopped", since(began), len(stopped))
	if len(stopped) < 4 {
		t.Errorf("%d processes of the engine were stopped, want one each two minutes", len(stopped))
	}
	s.until("the node turns", func() error {
		if is, ready := st.n.hand.ready(); !ready {
			return fmt.Errorf("it answers %s", is)
		}
		return nil
	})
	st.p.answers()
	st.p.noted("before the engine hangs")
	st.n.settled(st.counts)
	st.end()
}
