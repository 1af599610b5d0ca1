package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
)

// How the objects of ours are called in a user's namespace.
const (
	labelPrefix     = "croft.local/label/"
	referencePrefix = "croft.local/reference/"
	leasePrefix     = "croft.pull."
	viewPrefix      = "croft.view."
)

// What they say.
const (
	keyReservation = "croft.reservation"
	keyHash        = "croft.hash"
	keyUser        = "croft.user"
	keyReference   = "croft.image.reference"
	keySize        = "croft.image.size"
	keyUsed        = "croft.image.used"
	keyReleased    = "croft.image.released"
)

// pinned is an image object of ours.
type pinned struct {
	name  string
	label string
	// hash says whose a label's is, see node.Claim; those of an older croft have none.
	hash      string
	user      string
	reference string
	target    ocispec.Descriptor
	size      int64
	used      time.Time
	// released is a label's whose container stood when it was released.
	released bool
}

func (p pinned) digest() digest.Digest { return p.target.Digest }

// image is what the contract says of a label's.
func (p pinned) image() node.Image {
	return node.Image{
		Label: p.label, Reference: p.reference, User: p.user, Hash: p.hash, Digest: p.digest().String(), Size: uint64(p.size),
		Ready: true, Used: p.used.Unix(),
	}
}

func read(i images.Image) pinned {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(i.Labels[key], 10, 64)
		return n
	}
	return pinned{
		name: i.Name, label: i.Labels[keyReservation], hash: i.Labels[keyHash], user: i.Labels[keyUser], reference: i.Labels[keyReference],
		target: i.Target, size: number(keySize), used: time.Unix(number(keyUsed), 0), released: i.Labels[keyReleased] != "",
	}
}

func (p pinned) object() images.Image {
	labels := map[string]string{
		keyUser: p.user, keyReference: p.reference, keySize: strconv.FormatInt(p.size, 10), keyUsed: strconv.FormatInt(p.used.Unix(), 10),
	}
	if p.label != "" {
		labels[keyReservation] = p.label
	}
	if p.hash != "" {
		labels[keyHash] = p.hash
	}
	if p.released {
		labels[keyReleased] = "true"
	}
	return images.Image{Name: p.name, Target: p.target, Labels: labels}
}

func referenceName(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return referencePrefix + hex.EncodeToString(sum[:])
}

// write makes an object, or makes it this one.
func (p parts) write(ctx context.Context, o pinned) error {
	_, err := p.images.Create(ctx, o.object())
	if errdefs.IsAlreadyExists(err) {
		_, err = p.images.Update(ctx, o.object())
	}
	return backend(err, "keep an image")
}

// get returns an object. NotExist when there is none.
func (p parts) get(ctx context.Context, name string) (pinned, error) {
	i, err := p.images.Get(ctx, name)
	if err != nil {
		return pinned{}, backend(err, "find an image")
	}
	return read(i), nil
}

// list returns all objects of ours in a namespace.
func (p parts) list(ctx context.Context) ([]pinned, error) {
	all, err := p.images.List(ctx)
	if err != nil {
		return nil, backend(err, "list images")
	}
	var out []pinned
	for _, i := range all {
		if strings.HasPrefix(i.Name, labelPrefix) || strings.HasPrefix(i.Name, referencePrefix) {
			out = append(out, read(i))
		}
	}
	return out, nil
}

// pin keeps an image for a label, and for the next who asks for its reference.
func (s *Store) pin(ctx context.Context, p parts, spec node.ImageSpec, t target, from pinned) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := p.whole(ctx, from); err != nil {
		return err
	}
	from.user, from.reference, from.used, from.hash = spec.User, t.text, s.cfg.Clock.Now(), ""
	if !t.local() {
		known := from
		known.name, known.label = referenceName(t.text), ""
		if err := s.remember(ctx, p, known); err != nil {
			return err
		}
	}
	from.name, from.label, from.reference, from.hash = labelPrefix+spec.Label, spec.Label, spec.Reference, spec.Hash
	return p.write(ctx, from)
}

// remember keeps where a reference leads. One that says so already, and was used
// a moment ago, needs no write: each costs containerd an fsync.
func (s *Store) remember(ctx context.Context, p parts, known pinned) error {
	have, err := p.get(ctx, known.name)
	if err == nil && have.digest() == known.digest() && have.size == known.size && have.user == known.user && have.reference == known.reference {
		if since := known.used.Sub(have.used); since >= 0 && since < touchAgain {
			return nil
		}
	}
	return p.write(ctx, known)
}

// whole fails when something of an image isn't here any more: it may have been
// removed just now.
func (p parts) whole(ctx context.Context, o pinned) error {
	config, _, err := p.config(ctx, o)
	if err != nil {
		return err
	}
	_, err = p.snapshots.Stat(ctx, chainOf(config.RootFS.DiffIDs).String())
	return backend(err, "find an image's layers")
}

// known is what a reference led this user to, when it is still here. A digest
// is the same from everywhere.
func (p parts) known(ctx context.Context, t target) (pinned, bool, error) {
	if t.local() {
		return pinned{}, false, nil
	}
	o, err := p.get(ctx, referenceName(t.text))
	if node.KindOf(err) != node.NotExist {
		return o, err == nil, err
	}
	if t.digest == "" {
		return pinned{}, false, nil
	}
	return p.byDigest(ctx, t.digest)
}

// byDigest finds an image of the user's whose manifest has a digest.
func (p parts) byDigest(ctx context.Context, d digest.Digest) (pinned, bool, error) {
	all, err := p.list(ctx)
	for _, o := range all {
		if o.digest() == d {
			o.released = false
			return o, true, nil
		}
	}
	return pinned{}, false, err
}

// find returns a label's object and the namespace that it is in, released ones
// too when asked. NotExist when there is none.
func (s *Store) find(ctx context.Context, label string) (context.Context, parts, pinned, error) {
	users, err := s.cfg.Daemon.Users(ctx)
	if err != nil {
		return ctx, parts{}, pinned{}, backend(err, "list users")
	}
	for _, user := range users {
		in, p, err := s.parts(ctx, user)
		if err != nil {
			return ctx, parts{}, pinned{}, err
		}
		o, err := p.get(in, labelPrefix+label)
		if node.KindOf(err) == node.NotExist {
			continue
		}
		return in, p, o, err
	}
	return ctx, parts{}, pinned{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
}
