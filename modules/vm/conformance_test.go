package vm

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

func TestVMsConform(t *testing.T) {
	t.Parallel()
	conformance.VMsSuite(t, func(t *testing.T) conformance.VMsSubject {
		w := newWorld(t)
		c := w.config()
		c.Logs, c.PowerOff = outputFiles{w.dir}, time.Second
		var m *Module
		open := func(t *testing.T) conformance.VMsClient {
			t.Helper()
			if m != nil {
				m.Close()
			}
			m = w.open(c)
			return stubs.NewVMsStub(conformance.OnBus[node.VMs](t, node.VMModule, bus.Object(node.VMObject, node.VMVersion), m))
		}
		return conformance.VMsSubject{
			Client: open(t), Restart: open,
			Spec: func(t *testing.T, id string) node.VMSpec {
				t.Helper()
				spec := w.spec()
				spec.ID, spec.Tap = id, node.VMTap{}
				return spec
			},
			Crash: func(t *testing.T, vm node.VMInfo) {
				t.Helper()
				must(t, unix.Kill(int(vm.PID), unix.SIGKILL))
			},
		}
	})
}

// outputFiles are logs: a file for each VM, which nobody needs to read.
type outputFiles struct{ dir string }

func (o outputFiles) path(id string) string { return filepath.Join(o.dir, id+".log") }

// Open implements Logs.
func (o outputFiles) Open(_ context.Context, id, _ string) (*os.File, error) {
	return os.OpenFile(o.path(id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// Drop implements Logs.
func (o outputFiles) Drop(_ context.Context, id string) error {
	if err := os.Remove(o.path(id)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
