package catalog

import (
	"context"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// staleLease is the age at which the lease of a pull that nobody continues is ended.
const staleLease = 7 * 24 * time.Hour

// BlobRef is the name of a label's unfinished blob.
func BlobRef(label string, d digest.Digest) string { return "croft/" + label + "/" + d.Encoded() }

func ofLabel(ref, label string) bool { return strings.HasPrefix(ref, "croft/"+label+"/") }

// Hold begins the lease of a label's pull, or continues that of the attempt before.
// Content written with the returned context stays until LetGo.
func (n Namespace) Hold(ctx context.Context, label string) (context.Context, error) {
	id := leasePrefix + label
	_, err := n.leases.Create(ctx, leases.WithID(id), leases.WithLabels(map[string]string{keyReservation: label}))
	if errdefs.IsAlreadyExists(err) {
		err = nil
	}
	return leases.WithLease(ctx, id), Kinded(err, "hold the pulled blobs")
}

// HoldBlob adds a blob that was here before to the lease of a label's pull.
func (n Namespace) HoldBlob(ctx context.Context, label string, d digest.Digest) error {
	return n.hold(ctx, label, leases.Resource{ID: d.String(), Type: "content"})
}

// HoldLayers adds a chain of unpacked layers that was here before to the lease of a
// label's pull, and returns its topmost layer's usage. held is false when there is
// no such chain.
func (n Namespace) HoldLayers(ctx context.Context, label, chain string) (u snapshots.Usage, held bool, err error) {
	u, err = n.Snapshots.Usage(ctx, chain)
	if errdefs.IsNotFound(err) {
		return u, false, nil
	}
	if err != nil {
		return u, false, Kinded(err, "look for an unpacked layer")
	}
	return u, true, n.hold(ctx, label, leases.Resource{ID: chain, Type: "snapshots/" + Snapshotter})
}

func (n Namespace) hold(ctx context.Context, label string, r leases.Resource) error {
	return Kinded(n.leases.AddResource(ctx, leases.Lease{ID: leasePrefix + label}, r), "hold the pulled blobs")
}

// LetGo ends a label's lease with all that only it holds, and its unfinished blobs.
func (n Namespace) LetGo(ctx context.Context, label string) error {
	started, err := n.Content.ListStatuses(ctx, "")
	if err != nil {
		return Kinded(err, "list unfinished blobs")
	}
	for _, st := range started {
		if ofLabel(st.Ref, label) {
			if err := n.Abort(ctx, st.Ref); err != nil {
				return err
			}
		}
	}
	err = n.leases.Delete(ctx, leases.Lease{ID: leasePrefix + label}, leases.SynchronousDelete)
	if err != nil && !errdefs.IsNotFound(err) {
		return Kinded(err, "end a pull")
	}
	return nil
}

// Abort removes an unfinished blob. It retries, because containerd may still be
// closing the blob's writer.
func (n Namespace) Abort(ctx context.Context, ref string) error {
	const pause, times = 20 * time.Millisecond, 250
	for i := 0; ; i++ {
		err := n.Content.Abort(ctx, ref)
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if i == times {
			return Kinded(err, "remove an unfinished blob")
		}
		select {
		case <-ctx.Done():
			return Kinded(err, "remove an unfinished blob")
		case <-time.After(pause):
		}
	}
}

// leased reports whether a label's pull has left a lease.
func (n Namespace) leased(ctx context.Context, label string) (bool, error) {
	all, err := n.leases.List(ctx)
	if err != nil {
		return false, Kinded(err, "list pulls")
	}
	for _, l := range all {
		if l.ID == leasePrefix+label {
			return true, nil
		}
	}
	return false, nil
}

// endStale ends the leases of pulls that nobody continues.
func (n Namespace) endStale(ctx context.Context, now time.Time, pulling func(label string) bool) error {
	all, err := n.leases.List(ctx)
	if err != nil {
		return Kinded(err, "list pulls")
	}
	for _, l := range all {
		label, ours := strings.CutPrefix(l.ID, leasePrefix)
		if !ours || now.Sub(l.CreatedAt) < staleLease || pulling(label) {
			continue
		}
		if err := n.LetGo(ctx, label); err != nil {
			return err
		}
	}
	return nil
}
