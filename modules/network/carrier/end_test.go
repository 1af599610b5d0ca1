package carrier

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
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
