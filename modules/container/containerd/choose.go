package containerd

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// The contents of the file of the choice.
const (
	choiceOwn    = "own"
	choiceSystem = "system"
)

// systemWait is how long the system's containerd may take to answer at the first start.
const systemWait = 5 * time.Second

// choose decides which containerd is used. The first decision is kept in a file: containers
// don't move.
func (c Config) choose(ctx context.Context) (address string, own bool, err error) {
	switch {
	case c.Address != "":
		return c.Address, false, nil
	case c.Own:
		return c.socket(), true, nil
	}
	raw, err := os.ReadFile(c.chosen())
	if err != nil && !os.IsNotExist(err) {
		return "", false, errors.Wrap(err, "cannot read which containerd this node uses")
	}
	choice := strings.TrimSpace(string(raw))
	if choice != choiceOwn && choice != choiceSystem {
		choice = c.firstChoice(ctx)
		if err := c.makeFolders(); err != nil {
			return "", false, err
		}
		if err := atomicfile.WriteFile(c.chosen(), []byte(choice+"\n"), 0o600); err != nil {
			return "", false, node.Errorf(node.Internal, "cannot remember which containerd this node uses: %w", err)
		}
	}
	if choice == choiceSystem {
		return c.system, false, nil
	}
	return c.socket(), true, nil
}

// firstChoice is the system's containerd when it answers and isn't too old.
func (c Config) firstChoice(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, systemWait)
	defer cancel()
	p := listener(ctx, c.system)
	if p == nil {
		return choiceOwn
	}
	p.Close()
	d, err := c.connect(c.system, false)
	if err != nil {
		return choiceOwn
	}
	defer d.client.Close()
	if _, err := d.Client(ctx); err != nil {
		c.Log.Warn().Str("step", "containerd").Err(err).Msg("cannot use the system's containerd")
		return choiceOwn
	}
	return choiceSystem
}
