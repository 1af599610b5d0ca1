package rootfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// The ranges: 4096 of 65536 IDs, from 0x70000000 to 0x7fffffff. Those of people,
// services and other programs' containers lie below.
const (
	firstID    = 0x70000000
	rangeSize  = 65536
	rangeCount = 4096
)

const (
	rangesName    = "ranges.json"
	rangesVersion = 1
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

// rangesFile is ranges.json: for each user which of the ranges it has. Sum is
// the SHA-256 of Users, so that no damage is taken for another user.
type rangesFile struct {
	Version int               `json:"version"`
	Sum     string            `json:"sum"`
	Users   map[string]uint32 `json:"users"`
}

// Range is that of a user, the same for ever. Refused when all are taken.
func (s *Store) Range(user string) (Range, error) {
	if user == "" || len(user) > longestUser {
		return Range{}, node.Errorf(node.Invalid, "cannot give user %.64q a range of IDs: a user has 1 to %d characters", user, longestUser)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if index, ok := s.ranges[user]; ok {
		return rangeOf(index), nil
	}
	var r Range
	err := s.withRanges(func() error {
		// Whoever else uses the folder may have dealt some since.
		users, err := readRanges(s.rangesPath())
		if err != nil {
			return err
		}
		index, ok := users[user]
		if !ok {
			if index, err = deal(users, user); err != nil {
				return err
			}
			users[user] = index
			if err := writeRanges(s.rangesPath(), users); err != nil {
				return err
			}
		}
		s.ranges, r = users, rangeOf(index)
		return nil
	})
	return r, err
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
func deal(users map[string]uint32, user string) (uint32, error) {
	taken := make(map[uint32]bool, len(users))
	for _, index := range users {
		taken[index] = true
	}
	sum := sha256.Sum256([]byte(user))
	wanted := (uint32(sum[0])<<8 | uint32(sum[1])) % rangeCount
	for i := range uint32(rangeCount) {
		if index := (wanted + i) % rangeCount; !taken[index] {
			return index, nil
		}
	}
	return 0, node.Errorf(node.Refused, "cannot give user %s a range of IDs: all %d are taken by other users", user, rangeCount)
}

func readRanges(path string) (map[string]uint32, error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return map[string]uint32{}, nil
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

func parseRanges(raw []byte) (map[string]uint32, error) {
	var f rangesFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its end")
	}
	if f.Version != rangesVersion {
		return nil, errors.Errorf("it is of version %d, and only %d is known", f.Version, rangesVersion)
	}
	owner := map[uint32]string{}
	for user, index := range f.Users {
		if index >= rangeCount {
			return nil, errors.Errorf("user %q has range %d, and there are %d", user, index, rangeCount)
		}
		if other, twice := owner[index]; twice {
			return nil, errors.Errorf("users %q and %q have the same range", user, other)
		}
		owner[index] = user
	}
	if sum, err := sumOf(f.Users); err != nil || sum != f.Sum {
		return nil, errors.New("its checksum is wrong")
	}
	if f.Users == nil {
		f.Users = map[string]uint32{}
	}
	return f.Users, nil
}

func sumOf(users map[string]uint32) (string, error) {
	raw, err := json.Marshal(users) // in the order of the keys
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

func writeRanges(path string, users map[string]uint32) error {
	sum, err := sumOf(users)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(rangesFile{Version: rangesVersion, Sum: sum, Users: users}, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, append(raw, '\n'), atomicfile.Mode)
}
