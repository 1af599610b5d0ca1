package image

import (
	"context"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/node"
)

func chainOf(diffs []digest.Digest) digest.Digest { return identity.ChainID(diffs) }

// unpacker unpacks layers, in fair turns, each in a process of its own. It is safe for
// concurrent use.
type unpacker struct {
	turns turns
	// turn, command and confine are those of Unpacking.
	turn    time.Duration
	command []string
	confine func(pid int)
	disk    *disk
	waste   *waste
}

// layer is a layer that is to be unpacked.
type layer struct {
	packed ocispec.Descriptor
	// diffs are the diff IDs of the layer, which is last, and of those below it.
	diffs  []digest.Digest
	bounds *unpack.Bounds
}

// mostDoublings is how often a layer's turn becomes twice as long: from half a minute to more
// than any layer may take.
const mostDoublings = 6

// layer unpacks a layer into a snapshot. When its turn ends because others wait, it
// starts again behind them, with a turn that is twice as long.
func (u *unpacker) layer(ctx context.Context, in catalog.Namespace, j *job, l layer) error {
	user := j.spec.User
	for n := 0; ; n++ {
		length := u.turn << min(n, mostDoublings)
		t := turn{user: user, first: n == 0, length: length, pause: min(length, time.Second), endable: func() bool { return true }}
		again, err := u.turns.take(ctx, t, func(turn context.Context, _ func()) error {
			if err := u.waste.check(user, j.ref); err != nil {
				return err
			}
			began := u.turns.clock.Boot()
			err := u.snapshot(turn, in, j.spec.Label, l)
			if turn.Err() == nil || ctx.Err() != nil { // the user doesn't pay for a turn that others have ended
				j.spend(u.turns.clock.Boot() - began)
			}
			return err
		})
		if !again {
			return catalog.Kinded(err, "unpack a layer")
		}
	}
}

// snapshot makes one layer a snapshot.
func (u *unpacker) snapshot(ctx context.Context, in catalog.Namespace, label string, l layer) error {
	key, parent := "croft.unpack."+label, ""
	if n := len(l.diffs) - 1; n > 0 {
		parent = chainOf(l.diffs[:n]).String()
	}
	// One that an attempt before has left is made anew.
	if err := in.Snapshots.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
		return catalog.Kinded(err, "unpack a layer")
	}
	mounts, err := in.Snapshots.Prepare(ctx, key, parent)
	if err != nil {
		return catalog.Kinded(err, "unpack a layer")
	}
	chain := chainOf(l.diffs).String()
	if err = u.apply(ctx, in, l, mounts); err == nil {
		err = in.Snapshots.Commit(ctx, chain, key)
		if err == nil {
			return nil
		}
		if errdefs.IsAlreadyExists(err) {
			_, _, err = in.HoldLayers(ctx, label, chain)
		}
	}
	// Also after ctx has ended.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
	defer cancel()
	if e := in.Snapshots.Remove(clean, key); e != nil && !errdefs.IsNotFound(e) && err == nil {
		err = e
	}
	return catalog.Kinded(err, "unpack a layer")
}

// apply unpacks a layer into a snapshot's folder, within the bounds, in a process of
// its own, and checks that it has the diff ID of the config.
func (u *unpacker) apply(ctx context.Context, in catalog.Namespace, l layer, mounts []mount.Mount) error {
	b, diff := l.bounds, l.diffs[len(l.diffs)-1]
	upper, parents, err := folders(mounts)
	if err != nil {
		return err
	}
	at, err := in.Content.ReaderAt(ctx, l.packed)
	if err != nil {
		return catalog.Kinded(err, "read a layer")
	}
	defer at.Close()
	if b.Room, err = u.disk.left(ctx); err != nil {
		return err
	}
	watched, end := context.WithCancelCause(ctx)
	defer end(nil)
	go u.disk.watch(watched, end)
	got, err := unpack.Run(watched, u.command, unpack.Layer{Packed: at, Upper: upper, Below: parents, Bounds: *b, Confine: u.confine})
	if full := context.Cause(watched); err != nil && watched.Err() != nil && node.KindOf(full) == node.NoSpace {
		return full
	}
	if err != nil {
		return err
	}
	if got.Diff != diff {
		return node.Errorf(node.Refused, "cannot use the image: its layer %s holds %s, its config says %s", l.packed.Digest, got.Diff, diff)
	}
	b.Bytes, b.Files = got.Bytes, got.Files
	return nil
}

// folders are a layer's folder and those of the layers below it, topmost first.
func folders(mounts []mount.Mount) (upper string, parents []string, err error) {
	if len(mounts) == 1 && mounts[0].Type == "bind" {
		return mounts[0].Source, nil, nil
	}
	if len(mounts) == 1 && mounts[0].Type == "overlay" {
		for _, o := range mounts[0].Options {
			if v, ok := strings.CutPrefix(o, "upperdir="); ok {
				upper = v
			}
			if v, ok := strings.CutPrefix(o, "lowerdir="); ok {
				parents = strings.Split(v, ":")
			}
		}
	}
	if upper == "" {
		err = node.Errorf(node.Internal, "cannot use containerd's snapshots: %+v isn't an overlay", mounts)
	}
	return upper, parents, err
}
