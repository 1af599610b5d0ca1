package logs

import (
	"context"
	"path/filepath"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Carrier speaks to one carrier process; see carrier.Client. Keeper finds another
// one by itself when that has ended.
type Carrier struct {
	*carrier.Client
	limits limit.Elsewhere
}

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. A carrier of another
// protocol or with other settings is replaced: nothing is lost.
// node.Transient when none answers in time.
func Ensure(ctx context.Context, c Config) (*Carrier, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	replaced := false
	client, err := carrier.Ensure(ctx, kind(), carrier.Config{RunDir: c.RunDir, Command: c.Command, Within: c.Within, Log: c.Log}, func(i Info) (bool, error) {
		if c.fits(i) {
			return true, nil
		}
		if replaced {
			return false, node.Errorf(node.Invalid, "cannot start the log carrier: its command gives it other settings than it should have")
		}
		replaced = true
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return &Carrier{Client: client}, nil
}

// TakeDown ends the carrier of a run folder, if there is one. FIFOs and files stay.
func TakeDown(ctx context.Context, c Config) error { return carrier.End(ctx, kind(), c.RunDir) }

// fits reports whether a carrier is as it should be.
func (c Config) fits(i Info) bool {
	return i.Protocol == protocol && i.Dir == filepath.Clean(c.Dir) && i.Size == c.Size && i.Files == c.Files
}

// Memory is the carrier's RssAnon in bytes.
func (c *Carrier) Memory(ctx context.Context) (uint64, error) {
	info, err := c.Info(ctx)
	return info.Memory, err
}

// Info asks the carrier about itself. How often it has reached its limits
// counts in this process, too.
func (c *Carrier) Info(ctx context.Context) (Info, error) {
	info, err := carrier.AskInfo[Info](ctx, c.Client)
	if err == nil {
		c.limits.Seen(info.Limits)
	}
	return info, err
}

// Open makes the FIFOs of a container, or finds them, and reads them from now
// on. A container that is started again goes on in the same files. Its cost
// counts for user.
func (c *Carrier) Open(ctx context.Context, id, user string) (FIFOs, error) {
	answer, err := carrier.Ask[openAnswer](ctx, c.Client, opOpen, openRequest{ID: id, User: user})
	if err == nil && answer.FIFOs == nil {
		err = node.Errorf(node.Internal, "cannot open the logs of %s: the carrier's answer is empty", id)
	}
	if err != nil {
		return FIFOs{}, err
	}
	return *answer.FIFOs, nil
}

// Drop writes the rest of the output, and removes the FIFOs; the files too, unless
// they are kept. A container that the carrier doesn't know is no error.
func (c *Carrier) Drop(ctx context.Context, id string, keepFiles bool) error {
	_, err := carrier.Ask[carrier.Nothing](ctx, c.Client, opDrop, dropRequest{ID: id, KeepFiles: keepFiles})
	return err
}

// List are the IDs of all containers whose FIFOs are read.
func (c *Carrier) List(ctx context.Context) ([]string, error) {
	answer, err := carrier.Ask[listAnswer](ctx, c.Client, opList, carrier.Nothing{})
	return answer.IDs, err
}
