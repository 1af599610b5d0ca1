package logs

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Carrier speaks to one carrier process. When that has ended, Done is closed
// and all calls are node.Transient: Ensure gives another one, and Keeper does
// so by itself.
type Carrier struct{}

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. A carrier of another
// protocol or with other settings is replaced: nothing is lost.
// node.Transient when none answers in time.
func Ensure(ctx context.Context, c Config) (*Carrier, error) { return nil, errUnfinished() }

// PID is the carrier's process ID.
func (c *Carrier) PID() int { return 0 }

// Done is closed when the process has ended.
func (c *Carrier) Done() <-chan struct{} { return nil }

// Close lets go of what the client watches the process with. The carrier goes on.
func (c *Carrier) Close() {}

// Memory is the carrier's RssAnon in bytes.
func (c *Carrier) Memory(ctx context.Context) (uint64, error) { return 0, errUnfinished() }

// Open makes the FIFOs of a container, or finds them, and reads them from now
// on. A container that is started again goes on in the same files.
func (c *Carrier) Open(ctx context.Context, id string) (FIFOs, error) {
	return FIFOs{}, errUnfinished()
}

// Drop writes what is left, removes the FIFOs, and the files too unless they
// are kept. What isn't there is no error.
func (c *Carrier) Drop(ctx context.Context, id string, keepFiles bool) error { return errUnfinished() }

// List are the IDs of all containers whose FIFOs are read.
func (c *Carrier) List(ctx context.Context) ([]string, error) { return nil, errUnfinished() }

func errUnfinished() error { return node.Errorf(node.Internal, "cannot do this yet") }
