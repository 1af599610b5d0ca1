package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// marker is the object that names the machine. No kind begins with a dot.
const marker = ".machine"

// bucket is one instance's place in a bucket.
type bucket struct {
	settings Settings
	keys     *keyring
	// core tries requests several times, once tries them once.
	core, once minio.Core
	existing   bool
	patience   time.Duration
}

func (b *bucket) at(parts ...string) string {
	return path.Join(append([]string{b.settings.Prefix}, parts...)...)
}

// within bounds a call.
func (b *bucket) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.patience)
}

// Open implements place.Place.
func (b *bucket) Open(ctx context.Context, machine persist.MachineID) error {
	if err := b.keys.read(); err != nil {
		return node.Errorf(node.KindOf(err), "cannot use %s: %w", b, err)
	}
	ctx, cancel := b.within(ctx)
	defer cancel()
	err := b.ours(ctx, machine)
	if node.KindOf(err) != node.NotExist || b.existing {
		return err
	}
	// Of two machines that come at the same time, one gets it: with servers that know the condition by their answer, with others as far as
	// the second look sees it.
	body := []byte(string(machine) + "\n")
	opts := minio.PutObjectOptions{}
	opts.SetMatchETagExcept("*")
	err = b.put(ctx, b.core, b.at(marker), body, opts)
	if code := minio.ToErrorResponse(err).Code; code == minio.NotImplemented {
		err = b.put(ctx, b.core, b.at(marker), body, minio.PutObjectOptions{})
	} else if code == minio.PreconditionFailed || code == "ConditionalRequestConflict" {
		err = nil
	}
	if err != nil {
		return b.cause("claim", err)
	}
	err = b.ours(ctx, machine)
	if node.KindOf(err) == node.NotExist {
		return node.WithKind(node.Transient, err)
	}
	return err
}

// ours reads which machine the prefix belongs to; NotExist when no machine has used it.
func (b *bucket) ours(ctx context.Context, machine persist.MachineID) error {
	text, err := b.get(ctx, b.at(marker))
	if err != nil {
		return err
	}
	owner, whole := bytes.CutSuffix(text, []byte("\n"))
	switch {
	case !whole || len(owner) > persist.MaxName:
		return node.Errorf(node.Refused, "cannot use %s: its object %q is damaged", b, b.at(marker))
	case string(owner) != string(machine):
		return node.Errorf(node.Refused, "cannot use %s for machine %s: it belongs to machine %q", b, machine, owner)
	}
	return nil
}

// String names the place in errors.
func (b *bucket) String() string {
	return "bucket " + path.Join(b.settings.Bucket, b.settings.Prefix) + " of " + b.settings.Endpoint
}

// Put implements place.Place.
func (b *bucket) Put(ctx context.Context, kind persist.Kind, key persist.Key, body []byte) error {
	ctx, cancel := b.within(ctx)
	defer cancel()
	core := b.core
	if persist.IsOnce(ctx) {
		core = b.once
	}
	return b.cause("put "+string(key)+" into", b.put(ctx, core, b.at(string(kind), string(key)), body, minio.PutObjectOptions{}))
}

func (b *bucket) put(ctx context.Context, core minio.Core, name string, body []byte, opts minio.PutObjectOptions) error {
	// The checksum is signed, so that the server refuses a body that changes on its way.
	sum := sha256.Sum256(body)
	opts.DisableContentSha256 = true
	info, err := core.PutObject(ctx, b.settings.Bucket, name, bytes.NewReader(body), int64(len(body)), "", hex.EncodeToString(sum[:]), opts)
	if err == nil && info.ETag == "" {
		return errNotS3
	}
	return err
}

// Get implements place.Place.
func (b *bucket) Get(ctx context.Context, kind persist.Kind, key persist.Key) ([]byte, error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	return b.get(ctx, b.at(string(kind), string(key)))
}

// get reads an object. One that is cut short on its way is asked for again.
func (b *bucket) get(ctx context.Context, name string) (body []byte, err error) {
	for range tries {
		body, err = b.getOnce(ctx, name)
		if err == nil || ctx.Err() != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
	}
	switch {
	case err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return nil, node.Errorf(node.NotExist, "cannot get %s from %s: there is none", name, b)
	case err != nil:
		return nil, b.cause("get "+name+" from", err)
	case len(body) > persist.MaxFramed:
		return nil, node.Errorf(node.Invalid, "cannot get %s from %s: it has more than %d bytes", name, b, persist.MaxFramed)
	}
	return body, nil
}

func (b *bucket) getOnce(ctx context.Context, name string) ([]byte, error) {
	stream, _, _, err := b.core.GetObject(ctx, b.settings.Bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(io.LimitReader(stream, persist.MaxFramed+1))
}

// Keys implements place.Place. A server lists in order, so that a listing that is cut has the first ones. Keys that aren't valid are others'.
func (b *bucket) Keys(ctx context.Context, kind persist.Kind) ([]persist.Key, error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	prefix := b.at(string(kind)) + "/"
	var keys []persist.Key
	for info := range b.core.ListObjectsIter(ctx, b.settings.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, b.cause("list "+string(kind)+" of", info.Err)
		}
		key, below := strings.CutPrefix(info.Key, prefix)
		if !below {
			return nil, node.Errorf(node.Transient, "cannot list %s of %s: the server lists what isn't there", kind, b)
		}
		if persist.Key(key).Valid() {
			keys = append(keys, persist.Key(strings.Clone(key))) // not the whole name
		}
		if len(keys) == persist.MostKeys {
			return keys, nil
		}
	}
	if ctx.Err() != nil { // the iterator may end without a word
		return nil, b.cause("list "+string(kind)+" of", ctx.Err())
	}
	return keys, nil
}

// Delete implements place.Place.
func (b *bucket) Delete(ctx context.Context, kind persist.Kind, key persist.Key) error {
	ctx, cancel := b.within(ctx)
	defer cancel()
	err := b.core.RemoveObject(ctx, b.settings.Bucket, b.at(string(kind), string(key)), minio.RemoveObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil
	}
	return b.cause("delete "+string(key)+" from", err)
}
