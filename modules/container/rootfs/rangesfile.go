package rootfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	rangesName = "ranges.json"
	// rangesVersion is that of the file. Version 1 had no layers.
	rangesVersion = 2
)

// rangesFile is ranges.json: for each user which of the ranges it has, and why.
// Sum is the SHA-256 of Users, so that no damage is taken for another user.
type rangesFile struct {
	Version int              `json:"version"`
	Sum     string           `json:"sum"`
	Users   map[string]share `json:"users"`
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
