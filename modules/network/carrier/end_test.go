package carrier

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

func TestEnd(t *testing.T) {
	s := newSite(t, 1)
	must(t, End(t.Context(), s.run)) // there was none
	client := s.start(t)
	must(t, End(t.Context(), s.run))
	<-client.Done()

	killed := s.start(t)
	groups := cgroup.Of(killed.PID(), kind().Folder(s.run).Group()).Folders()
	must(t, unix.Kill(killed.PID(), unix.SIGKILL))
	<-killed.Done()
	must(t, End(t.Context(), s.run))
	for _, group := range groups {
		if _, err := os.Stat(group); len(groups) == 0 || !os.IsNotExist(err) {
			t.Errorf("a killed carrier's group %s stayed: %v", group, err)
		}
	}
}

// One that is starting, or hangs, holds its lock and doesn't answer.
func TestEndOfOneThatDoesNotAnswer(t *testing.T) {
	s := newSite(t, 1)
	folder := kind().Folder(s.run)
	must(t, folder.Make())
	lock, err := filelock.Try(folder.Lock())
	must(t, err)
	lock.WritePID()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wants(t, node.Transient, fmt.Sprintf("process %d holds it", os.Getpid()), End(ctx, s.run))
	must(t, lock.Release())
	must(t, End(t.Context(), s.run))
}
