package storage

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/identity"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/nodestate"
	"github.com/croft-edge/croft/pkg/node"
)

// nodeFolder is the folder of a state volume that is a booted node's state-dir; the key lies in keyFolder of it.
const (
	nodeFolder = "croft"
	keyFolder  = "identity"
)

// Prepared is what `croftd storage prepare` prints.
type Prepared struct {
	Pool string `json:"pool"`
	// UUID is that of the pool's file system; it names the node's state where several disks have one.
	UUID string `json:"uuid"`
	Disk string `json:"disk"`
	// Path is the state volume, State the folder in it for state-dir, which may not be there yet.
	Path  string `json:"path"`
	State string `json:"state"`
	// Size is the volume's, in bytes.
	Size uint64 `json:"size"`
	// Made is whether the volume was made just now.
	Made bool `json:"made"`
	// Node is the node's ID; empty for a node that hasn't one yet.
	Node string `json:"node,omitempty"`
	// Problem is why the node's ID can't be read; empty if it can, or there is none.
	Problem string `json:"problem,omitempty"`
}

func prepareCommand() module.Command {
	return module.Command{
		Name: "prepare", Usage: "mount the pool that has the state of the stopped node itself, or make a first one, and print where the state is as JSON",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "size", Usage: "`SIZE` of the state volume, such as 8GiB; by default a quarter of the pool, from 2GiB to 64GiB, for a new one"},
			&cli.StringFlag{Name: "state", Usage: "`UUID` of the pool with this node's state, where several disks have one"},
			&cli.BoolFlag{Name: "existing", Usage: "only find it: make none"},
		},
		Run: func(ctx context.Context, o module.Order) error {
			spec := storage.StateSpec{Want: nodestate.Want{UUID: o.CLI.String("state"), Make: !o.CLI.Bool("existing")}}
			if text := o.CLI.String("size"); text != "" {
				size, err := bytesize.Parse(text)
				if err != nil {
					return module.UsageError{Err: errors.Wrap(err, "cannot use --size")}
				}
				spec.Size = size
			}
			return Prepare(ctx, o.Config, spec, o.CLI.App.Writer)
		},
	}
}

// Prepare prepares the state volume of the stopped node, and prints where it is.
func Prepare(ctx context.Context, c config.Config, spec storage.StateSpec, out io.Writer) error {
	v, err := storage.PrepareState(ctx, moduleConfig(c, zerolog.Nop()), spec)
	if errors.Is(err, storage.ErrInUse) {
		return node.Errorf(node.Refused, "cannot prepare the node's state: the node is running: stop the node first")
	}
	if err != nil {
		return err
	}
	p := Prepared{Pool: v.Pool, UUID: v.UUID, Disk: v.Disk, Path: v.Path, State: filepath.Join(v.Path, nodeFolder), Size: v.Size, Made: v.Made}
	if p.Node, err = nodeID(filepath.Join(p.State, keyFolder)); err != nil {
		p.Problem = err.Error() // the node won't start with it, and says so; without its state it could only say less
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return errors.Wrap(encoder.Encode(p), "cannot print where the state is")
}

// nodeID is the ID of the node whose key is in that folder; empty if there is none.
func nodeID(folder string) (string, error) {
	id, err := identity.Remembered(folder)
	if err != nil || id != "" {
		return id, err
	}
	key, err := identity.Load(folder, nil)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return key.ID(), nil
}
