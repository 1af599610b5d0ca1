package blockdev

import (
	"bytes"
	"context"
	"os/exec"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// LabelPrefix begins the btrfs label of every pool that croft made.
const LabelPrefix = "croft-"

// Format makes an empty btrfs on device, which may be a plain file. Data and
// metadata share its groups of blocks, and both are written once: so each byte
// that a quota counts takes one byte, and space freed by the one serves the other.
func Format(ctx context.Context, device, pool string, force bool) error {
	args := []string{"-q", "--mixed", "-m", "single", "-d", "single", "-L", LabelPrefix + pool}
	if force {
		args = append(args, "-f")
	}
	_, err := run(ctx, "mkfs.btrfs", append(args, device)...)
	return errors.Wrapf(err, "cannot format %s", device)
}

// Erase removes all signatures from a disk.
func Erase(ctx context.Context, disk string) error {
	_, err := run(ctx, "wipefs", "-q", "-a", disk)
	return err
}

// run runs one of the tools that pools are made with and returns its output.
// Its exit status stays in the error.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", node.Errorf(node.Refused, "cannot run %s: it isn't installed (Debian packages btrfs-progs and util-linux)", name)
	}
	if ctx.Err() != nil {
		return "", node.WithKind(node.Transient, errors.Wrapf(ctx.Err(), "cannot run %s", name))
	}
	if err != nil {
		return out.String(), errors.Wrapf(err, "cannot run %s: %s", name, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}
