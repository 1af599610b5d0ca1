package rootfs

import (
	"context"
	"crypto/sha256"
	"maps"
	"path/filepath"
	"sync"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// The ranges: 65536 IDs each, from 0x70000000 to 0xefffffff. Those of people,
// services and other programs' containers lie below.
const (
	firstID    = 0x70000000
	rangeSize  = 65536
	rangeCount = 32768
)

// Ranges are the ranges of user IDs, of which each user with a layer has one.
var Ranges = limit.Limit{Name: "id-ranges", Per: "user", Each: 1, Total: 32768} //nolint:gochecknoglobals // a limit of the table

// longestUser is in bytes.
const longestUser = 256

// Range is the user and group IDs on the node that a user's containers have.
type Range struct {
	Base uint32
	Size uint32
}

func (r Range) has(id uint32) bool { return id >= r.Base && id-r.Base < r.Size }

func rangeOf(index uint32) Range { return Range{Base: firstID + index*rangeSize, Size: rangeSize} }

// share is the range of a user, and the layers that hold it.
type share struct {
	Index uint32 `json:"range"`
	// Layers are the paths of the layers whose files have its IDs, each with the
	// file system that it is on.
	Layers map[string]string `json:"layers,omitempty"`
	// Older is set for one of a croft that recorded no layers: there may be more
	// of them, so it is never given back.
	Older bool `json:"older,omitempty"`
}

// deal picks a free range: the one that the user's name leads to, or the next.
func deal(users map[string]share, user string) (share, error) {
	taken := make(map[uint32]bool, len(users))
	for _, other := range users {
		taken[other.Index] = true
	}
	sum := sha256.Sum256([]byte(user))
	wanted := (uint32(sum[0])<<8 | uint32(sum[1])) % rangeCount
	for i := range uint32(rangeCount) {
		if index := (wanted + i) % rangeCount; !taken[index] {
			return share{Index: index}, nil
		}
	}
	return share{}, node.Errorf(node.Refused, "cannot give user %s a range of IDs: all %d are taken by other users", user, rangeCount)
}

// ranges are the ranges of all users, as they are in ranges.json.
type ranges struct {
	// dir is the folder of the file.
	dir string
	// users are those of all containers that exist, whose ranges stay; known is false
	// while that can't be told.
	users func() (users []string, known bool, err error)

	mu   sync.Mutex
	held map[string]share
	// working counts by user the holders of hold.
	working map[string]int
}

// openRanges reads the ranges of a folder. Refused when their file is damaged.
func openRanges(dir string) (*ranges, error) {
	t := &ranges{dir: dir, working: map[string]int{}}
	err := t.exclusively(func() (err error) {
		t.held, err = readRanges(t.path())
		return err
	})
	return t, err
}

// hold is the range of a user for a layer, which keeps it for the user for as
// long as the layer is there: that is on disk before hold returns. Until done is
// called nobody else gets the range, whatever becomes of the layer. Refused when
// all ranges are taken, NotExist when there is no such layer.
func (t *ranges) hold(user, layer string) (r Range, done func(), err error) {
	if user == "" || len(user) > longestUser {
		return r, nil, node.Errorf(node.Invalid, "cannot give user %.64q a range of IDs: a user has 1 to %d characters", user, longestUser)
	}
	on, err := fileSystemOf(layer)
	if err != nil {
		return r, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	held, ok := t.held[user]
	if !ok || held.Layers[layer] != on {
		if held, err = t.note(user, layer, on); err != nil {
			return r, nil, err
		}
	}
	t.working[user]++
	return rangeOf(held.Index), func() { t.release(user) }, nil
}

// release takes back a user's hold.
func (t *ranges) release(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working[user]--; t.working[user] == 0 {
		delete(t.working, user)
	}
}

// note records that a user's layer has its range, and deals one to a user without. mu
// is held.
func (t *ranges) note(user, layer, on string) (held share, err error) {
	err = t.exclusively(func() error {
		// Another process may have dealt some since.
		users, err := readRanges(t.path())
		if err != nil {
			return err
		}
		held, err = t.deal(users, user)
		if err != nil {
			return err
		}
		held.Layers = maps.Clone(held.Layers)
		if held.Layers == nil {
			held.Layers = map[string]string{}
		}
		held.Layers[layer] = on
		users[user] = held
		if err := writeRanges(t.path(), users); err != nil {
			return err
		}
		t.held = users
		return nil
	})
	return held, err
}

// deal is the share of a user among users, a fresh one where there is none. When
// all are taken those that nothing holds any more are dropped first.
func (t *ranges) deal(users map[string]share, user string) (share, error) {
	if held, ok := users[user]; ok {
		return held, nil
	}
	held, err := deal(users, user)
	if node.KindOf(err) != node.Refused {
		return held, err
	}
	if _, given := t.dropFree(users); given != nil {
		return share{}, given
	}
	if held, err = deal(users, user); err != nil {
		Ranges.Reached()
	}
	return held, err
}

func (t *ranges) path() string { return filepath.Join(t.dir, rangesName) }

// exclusively runs fn while no other process deals ranges of this folder.
func (t *ranges) exclusively(fn func() error) error {
	lock, err := filelock.WaitFolder(context.Background(), t.dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	return fn()
}
