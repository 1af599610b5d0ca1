package catalog

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/node"
)

// Namespace is containerd's services for one user. Its methods, and those of Content
// and Snapshots, want the context that Catalog.In returned with it.
type Namespace struct {
	User      string
	Content   content.Store
	Snapshots snapshots.Snapshotter
	images    images.Store
	leases    leases.Manager
	blobs     *blobs
	lists     *Lists
}

// write creates or replaces an object.
func (n Namespace) write(ctx context.Context, i Image) error {
	defer n.lists.Forget(n.User) // containerd's event comes later
	_, err := n.images.Create(ctx, i.object())
	if errdefs.IsAlreadyExists(err) {
		_, err = n.images.Update(ctx, i.object())
	}
	return Kinded(err, "keep an image")
}

// remove deletes an object, if there is one, and waits until its bytes are free.
func (n Namespace) remove(ctx context.Context, name, what string) error {
	defer n.lists.Forget(n.User) // containerd's event comes later
	if err := n.images.Delete(ctx, name, images.SynchronousDelete()); err != nil && !errdefs.IsNotFound(err) {
		return Kinded(err, what)
	}
	return nil
}

// get returns an object. NotExist when there is none.
func (n Namespace) get(ctx context.Context, name string) (Image, error) {
	i, err := n.images.Get(ctx, name)
	if err != nil {
		return Image{}, Kinded(err, "find an image")
	}
	return read(i), nil
}

// OfLabel returns a label's image, also a released one. NotExist when there is none.
func (n Namespace) OfLabel(ctx context.Context, label string) (Image, error) {
	return n.get(ctx, labelPrefix+label)
}

// list returns all objects of ours.
func (n Namespace) list(ctx context.Context) ([]Image, error) {
	all, err := n.images.List(ctx)
	if err != nil {
		return nil, Kinded(err, "list images")
	}
	var out []Image
	for _, i := range all {
		if strings.HasPrefix(i.Name, labelPrefix) || strings.HasPrefix(i.Name, referencePrefix) {
			out = append(out, read(i))
		}
	}
	return out, nil
}

// kept are all objects of ours. Those that another program has changed since may be missing until containerd tells: see Lists.
func (n Namespace) kept(ctx context.Context) ([]Image, error) {
	all, kept, epoch := n.lists.Kept(n.User)
	if kept {
		return all, nil
	}
	all, err := n.list(ctx)
	if err == nil {
		n.lists.Keep(n.User, epoch, all)
	}
	return all, err
}

// Size is the bytes of all images, shared ones counted once.
func (n Namespace) Size(ctx context.Context) (int64, error) {
	all, err := n.list(ctx)
	var total int64
	for _, size := range sizes(all) {
		total += size
	}
	return total, err
}

// sizes are the bytes of images by digest.
func sizes(all []Image) map[digest.Digest]int64 {
	out := make(map[digest.Digest]int64, len(all))
	for _, i := range all {
		out[i.Digest()] = i.Size
	}
	return out
}

// Known is the image that a reference led this user to, when it is still here. A
// digest is the same from everywhere.
func (n Namespace) Known(ctx context.Context, r source.Reference) (Image, bool, error) {
	if r.Local() {
		return Image{}, false, nil
	}
	i, err := n.get(ctx, referenceName(r.Text))
	if node.KindOf(err) != node.NotExist {
		return i, err == nil, err
	}
	if r.Digest == "" {
		return Image{}, false, nil
	}
	return n.ByDigest(ctx, r.Digest)
}

// ByDigest finds an image of the user's whose manifest has a digest.
func (n Namespace) ByDigest(ctx context.Context, d digest.Digest) (Image, bool, error) {
	all, err := n.list(ctx)
	for _, i := range all {
		if i.Digest() == d {
			i.Released = false
			return i, true, nil
		}
	}
	return Image{}, false, err
}
