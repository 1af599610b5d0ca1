package vm

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/node"
)

// Consoles are the serial consoles of running VMs, for their owners. They need no Module: the node's engine
// has them, beside it. Each is attached by one reader at a time, because QEMU serves one connection. All
// attached ones must belong to one Consoles.
type Consoles struct {
	dir string

	mu       sync.Mutex
	attached map[string]bool
}

// NewConsoles are the consoles of the VMs of a Module with that run folder.
func NewConsoles(runDir string) *Consoles {
	return &Consoles{dir: filepath.Join(runDir, folderName), attached: map[string]bool{}}
}

// Attach connects a VM's console until in ends, the VM ends, or ctx is done; none of these is an error. It gives out
// what the guest writes from now on. NotExist when there is no such VM, Busy when it doesn't run or its
// console is attached already.
func (c *Consoles) Attach(ctx context.Context, id string, in io.Reader, out io.Writer) error {
	if err := machine.CheckID("attach the console of", id); err != nil {
		return err
	}
	detach, err := c.claim(id)
	if err != nil {
		return err
	}
	defer detach()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", machine.Files(filepath.Join(c.dir, id)).Console())
	switch {
	case errors.Is(err, unix.ENOENT):
		return node.Errorf(node.NotExist, "cannot attach the console of VM %s: there is none that runs", id)
	case errors.Is(err, unix.ECONNREFUSED):
		return node.Errorf(node.Busy, "cannot attach the console of VM %s: it doesn't run now", id)
	case err != nil:
		return node.Errorf(node.Transient, "cannot attach the console of VM %s: %w", id, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if in != nil {
		go func() {
			// The connection's end ends both directions.
			_, _ = io.Copy(conn, in)
			_ = conn.Close()
		}()
	}
	if _, err := io.Copy(out, conn); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
		return errors.Wrapf(err, "cannot show the console of VM %s", id)
	}
	return nil
}

// claim takes a VM's console for one caller.
func (c *Consoles) claim(id string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[id] {
		return nil, node.Errorf(node.Busy, "cannot attach the console of VM %s: it is attached already", id)
	}
	c.attached[id] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.attached, id)
	}, nil
}
