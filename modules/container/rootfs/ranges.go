package rootfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
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

const (
	rangesName = "ranges.json"
	// rangesVersion is that of the file. Version 1 said nothing of layers.
	rangesVersion = 2
	// longestUser is in bytes.
	longestUser = 256
)

// Range is the user and group IDs on the node that a user's containers have.
type Range struct {
	Base uint32
	Size uint32
}

func (r Range) has(id uint32) bool { return id >= r.Base && id-r.Base < r.Size }

func rangeOf(index uint32) Range { return Range{Base: firstID + index*rangeSize, Size: rangeSize} }

// share is the range of a user, and what holds it.
type share struct {
	Index uint32 `json:"range"`
	// Layers are the paths of the layers whose files have its IDs, each with the
	// file system that it is on.
	Layers map[string]string `json:"layers,omitempty"`
	// Older is whether a croft dealt it that didn't note layers: there may be more
	// of them, so it is never given back.
	Older bool `json:"older,omitempty"`
}

// rangesFile is ranges.json: for each user which of the ranges it has, and why.
// Sum is the SHA-256 of Users, so that no damage is taken for another user.
type rangesFile struct {
	Version int              `json:"version"`
	Sum     string           `json:"sum"`
	Users   map[string]share `json:"users"`
}

// hold is the range of a user for a layer, which keeps it for the user for as
// long as the layer is there: that is on disk before hold returns. Until done is
// called nobody else gets the range, whatever becomes of the layer. Refused when
// all ranges are taken, NotExist when there is no such layer.
func (s *Store) hold(user, layer string) (r Range, done func(), err error) {
	if user == "" || len(user) > longestUser {
		return r, nil, node.Errorf(node.Invalid, "cannot give user %.64q a range of IDs: a user has 1 to %d characters", user, longestUser)
	}
	on, err := fileSystemOf(layer)
	if err != nil {
		return r, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.ranges[user]
	if !ok || held.Layers[layer] != on {
		if held, err = s.note(user, layer, on); err != nil {
			return r, nil, err
		}
	}
	s.working[user]++
	return rangeOf(held.Index), func() { s.release(user) }, nil
}

// release takes back a user's hold.
func (s *Store) release(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working[user]--; s.working[user] == 0 {
		delete(s.working, user)
	}
}

// note writes that a user's layer has its range, and deals one where there is
// none yet. mu is held.
func (s *Store) note(user, layer, on string) (held share, err error) {
	err = s.withRanges(func() error {
		// Whoever else uses the folder may have dealt some since.
		users, err := readRanges(s.rangesPath())
		if err != nil {
			return err
		}
		held, err = s.deal(users, user)
		if err != nil {
			return err
		}
		held.Layers = maps.Clone(held.Layers)
		if held.Layers == nil {
			held.Layers = map[string]string{}
		}
		held.Layers[layer] = on
		users[user] = held
		if err := writeRanges(s.rangesPath(), users); err != nil {
			return err
		}
		s.ranges = users
		return nil
	})
	return held, err
}

// deal is the share of a user among users, a fresh one where there is none. When
// all are taken it looks first for those that nobody holds any more.
func (s *Store) deal(users map[string]share, user string) (share, error) {
	if held, ok := users[user]; ok {
		return held, nil
	}
	held, err := deal(users, user)
	if node.KindOf(err) != node.Refused {
		return held, err
	}
	if _, given := s.giveBack(users); given != nil {
		return share{}, given
	}
	if held, err = deal(users, user); err != nil {
		Ranges.Reached()
	}
	return held, err
}

func (s *Store) rangesPath() string { return filepath.Join(s.cfg.StateDir, rangesName) }

// withRanges runs fn while no other process deals ranges of this folder.
func (s *Store) withRanges(fn func() error) error {
	dir, err := os.Open(s.cfg.StateDir)
	if err != nil {
		return errors.Wrap(err, "cannot open the folder of user ranges")
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return errors.Wrap(err, "cannot lock the folder of user ranges")
	}
	return fn()
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

func readRanges(path string) (map[string]share, error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return map[string]share{}, nil
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot read user ranges")
	}
	users, err := parseRanges(raw)
	if err != nil {
		return nil, node.Errorf(node.Refused, "cannot read user ranges of %s: %w. Put it back from a backup; without it, a user's containers would get another range, "+
			"and what they wrote beside their volumes would be lost. Remove the file to accept that", path, err)
	}
	return users, nil
}

func parseRanges(raw []byte) (map[string]share, error) {
	var f struct {
		Version int             `json:"version"`
		Sum     string          `json:"sum"`
		Users   json.RawMessage `json:"users"`
	}
	if err := strictly(raw, &f); err != nil {
		return nil, err
	}
	users := map[string]share{}
	switch f.Version {
	case 1:
		var older map[string]uint32
		if err := strictly(f.Users, &older); err != nil {
			return nil, err
		}
		if sum, err := sumOf(older); err != nil || sum != f.Sum {
			return nil, errors.New("its checksum is wrong")
		}
		for user, index := range older {
			users[user] = share{Index: index, Older: true}
		}
	case rangesVersion:
		if err := strictly(f.Users, &users); err != nil {
			return nil, err
		}
		if sum, err := sumOf(users); err != nil || sum != f.Sum {
			return nil, errors.New("its checksum is wrong")
		}
	default:
		return nil, errors.Errorf("it is of version %d, and only 1 and %d are known", f.Version, rangesVersion)
	}
	if users == nil {
		users = map[string]share{}
	}
	return users, apart(users)
}

// apart refuses shares of no range, and two of the same.
func apart(users map[string]share) error {
	owner := map[uint32]string{}
	for user, held := range users {
		if held.Index >= rangeCount {
			return errors.Errorf("user %q has range %d, and there are %d", user, held.Index, rangeCount)
		}
		if other, twice := owner[held.Index]; twice {
			return errors.Errorf("users %q and %q have the same range", user, other)
		}
		owner[held.Index] = user
	}
	return nil
}

// strictly decodes one JSON value of known members, with nothing after it.
func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

func sumOf(users any) (string, error) {
	raw, err := json.Marshal(users) // in the order of the keys
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

func writeRanges(path string, users map[string]share) error {
	sum, err := sumOf(users)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(rangesFile{Version: rangesVersion, Sum: sum, Users: users})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, append(raw, '\n'), atomicfile.Mode)
}
