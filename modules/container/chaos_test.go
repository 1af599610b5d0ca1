package container

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// again tries until it works. Failures before that must be Transient or Busy.
func again(t *testing.T, what string, do func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := do()
		if err == nil {
			return
		}
		if kind := node.KindOf(err); kind != node.Transient && kind != node.Busy {
			t.Errorf("%s: %v of kind %s, want one that is worth another try", what, err, kind)
		}
		if time.Now().After(deadline) {
			t.Errorf("%s fails for %s: %v", what, patience, err)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestContainerdIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lives := w.runs(w.spec("9-9", "serve"))
	specs := []node.ContainerSpec{w.spec("1-1", "serve"), w.spec("1-2", "serve")}
	done := make(chan struct{})
	var work, killer sync.WaitGroup
	killer.Go(func() {
		for pause := 300 * time.Millisecond; ; pause += 170 * time.Millisecond {
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			if pid := w.maybeContainerd(); pid != 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	})
	for _, s := range specs {
		work.Go(func() {
			for range 4 {
				again(t, "create", func() error { _, err := w.Create(s); return err })
				again(t, "start", func() error { _, err := w.Start(s.ID); return err })
				gone := false
				again(t, "delete", func() error {
					err := w.Delete(s.ID)
					gone = gone || node.KindOf(err) == node.Transient
					if gone && node.KindOf(err) == node.NotExist {
						return nil // it was the call before that has done it
					}
					return err
				})
			}
		})
	}
	work.Wait()
	close(done)
	killer.Wait()
	w.is("9-9", "as before", func(i node.ContainerInfo) bool {
		return i.PID == lives.PID && i.Restarts == 0 && i.Drift == ""
	})
	again(t, "delete", func() error { return w.Delete("9-9") })
	eventually(t, "the namespace goes with the next look", func() bool {
		users, err := w.module.daemon.Users(t.Context())
		return err == nil && len(users) == 0
	})
	w.nothingLeft("1-1", "1-2", "9-9")
}
