package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

// The kinds of a mirror's objects: the document of its data key, the list, and the files. There is one of the first two each.
const (
	kindKey  persist.Kind = "key"
	kindList persist.Kind = "list"
	kindFile persist.Kind = "file"

	onlyName = "1"
)

// list is what there must be on a mirror.
type list struct {
	// Number grows with each list of a data key.
	Number uint64 `json:"number"`
	// Birth is the ID of the store's birth.
	Birth string `json:"birth"`
	// Complete is whether the mirror has once had everything that the store had.
	Complete bool `json:"complete"`
	// Written is when, by the node's clock.
	Written time.Time `json:"written"`
	// Files are the hashes of contents by name.
	Files map[string]string `json:"files"`
}

// sum is the hash of a content.
func sum(body []byte) string {
	full := sha256.Sum256(body)
	return base64.RawURLEncoding.EncodeToString(full[:20])
}

// contentName is the name of the object that has a content of a name.
func contentName(name, hash string) string { return name + "@" + hash }

// soundBody is the content of a name in an object. Invalid when the object hasn't the content with that hash.
func soundBody(v *seal.Vault, o persist.Object, name, hash string) ([]byte, error) {
	item, err := v.Open(o)
	if err != nil {
		return nil, err
	}
	if item.Name != contentName(name, hash) || sum(item.Body) != hash {
		return nil, node.Errorf(node.Invalid, "cannot use the file %s: its content isn't the one listed", name)
	}
	return item.Body, nil
}

// contents is a mirror's key document and list, as far as they are sound, and the valid keys of its files, in order.
type contents struct {
	opened seal.Opened
	list   *list
	keys   []persist.Key
	// cut is whether there may be more keys, above the last of them.
	cut bool
}

// may reports whether the mirror may have an object of a file.
func (c contents) may(key persist.Key) bool {
	if c.cut && key > c.keys[len(c.keys)-1] {
		return true
	}
	_, there := slices.BinarySearch(c.keys, key)
	return there
}

// place is an instance of a provider.
type place struct {
	provider persist.Provider
	instance string
	timeout  time.Duration
}

// within bounds one call.
func (p place) within(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return do(ctx)
}

func (p place) put(ctx context.Context, o persist.Object) error {
	return p.within(ctx, func(ctx context.Context) error {
		_, err := p.provider.PutObject(ctx, p.instance, o)
		return err
	})
}

func (p place) get(ctx context.Context, kind persist.Kind, name string) (o persist.Object, err error) {
	err = p.within(ctx, func(ctx context.Context) error {
		o, err = p.provider.GetObject(ctx, p.instance, kind, persist.KeyOf(name))
		return err
	})
	return o, err
}

func (p place) remove(ctx context.Context, key persist.Key) error {
	return p.within(ctx, func(ctx context.Context) error {
		return p.provider.DeleteObject(ctx, p.instance, kindFile, key)
	})
}

// readList reads the list.
func (p place) readList(ctx context.Context, v *seal.Vault) (*list, error) {
	o, err := p.get(ctx, kindList, v.Hidden(kindList, onlyName))
	if err != nil {
		return nil, err
	}
	item, err := v.Open(o)
	if err != nil {
		return nil, err
	}
	l := &list{}
	if err := json.Unmarshal(item.Body, l); err != nil || item.Name != onlyName || item.Version != l.Number {
		return nil, node.Errorf(node.Invalid, "cannot read the list of %s: it isn't JSON of a list", p.instance)
	}
	return l, nil
}

// writeList writes the list. It is tried once: a try that arrives late, after another one has succeeded, could take the place of a newer list.
func (p place) writeList(ctx context.Context, v *seal.Vault, l *list) error {
	text, err := json.Marshal(l)
	if err != nil {
		return errors.Wrap(err, "cannot write a list")
	}
	o, err := v.Seal(seal.Item{Kind: kindList, Name: onlyName, Version: l.Number, Body: text})
	if err != nil {
		return err
	}
	return p.put(persist.Once(ctx), o)
}
