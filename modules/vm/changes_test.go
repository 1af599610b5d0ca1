package vm

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	changesconformance "github.com/croft-edge/croft/pkg/node/conformance/changes"
)

func TestTheEndOfAQEMUIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	m := w.open(w.config())
	info, err := m.Run(w.spec())
	must(t, err)
	e := changesconformance.Listen(t, m.Changes())
	must(t, syscall.Kill(int(info.PID), syscall.SIGKILL))
	e.HearsOnly("a killed QEMU", "7-1")
	eventually(t, "it runs again", func() error {
		again, err := m.Inspect("7-1")
		if err == nil && (again.State != node.VMRunning || again.PID == info.PID) {
			err = fmt.Errorf("%+v", again)
		}
		return err
	})
}
