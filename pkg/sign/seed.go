package sign

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/pkg/errors"
)

// seedHeader starts a seed file: the JSON string of its version.
const seedHeader = `"1.0.0"`

// Modes of seed files.
const (
	NodeSeedMode os.FileMode = 0o400
	UserSeedMode os.FileMode = 0o600
)

// Seed is the content of a seed file.
type Seed struct {
	KeyPair
	// Unversioned marks a file without a version header: it predates the header, and
	// may be rewritten.
	Unversioned bool
}

// EncodeSeed is a seed file's content.
func EncodeSeed(k KeyPair) []byte { return append([]byte(seedHeader), k.Seed()...) }

// DecodeSeed reads a seed file's content: "1.0.0" in quotes and 32 bytes, or
// 32 bytes alone. Its errors don't repeat any of it.
func DecodeSeed(content []byte) (Seed, error) {
	version := regexp.MustCompile(`^"(\d+\.\d+\.\d+)"`).Find(content)
	if version == nil {
		if len(content) != SeedSize {
			return Seed{}, errors.Errorf("cannot read seed: it has %d bytes, must have %d after a version, or %d without one", len(content), SeedSize, SeedSize)
		}
		k, err := FromSeed(content)
		return Seed{KeyPair: k, Unversioned: true}, err
	}
	if string(version) != seedHeader {
		return Seed{}, errors.Errorf("cannot read seed: its version is %.20s, must be %s", version, seedHeader)
	}
	rest := content[len(version):]
	if len(rest) != SeedSize {
		return Seed{}, errors.Errorf("cannot read seed: it has %d bytes after its version, must have %d", len(rest), SeedSize)
	}
	k, err := FromSeed(rest)
	return Seed{KeyPair: k}, err
}

// ReadSeedFile reads a seed file, whatever its permissions.
func ReadSeedFile(path string) (Seed, error) {
	return readSeedFile(path, 0)
}

// ReadPrivateSeedFile reads a seed file that only its owner may access; it
// refuses one that group or others may read, write or run.
func ReadPrivateSeedFile(path string) (Seed, error) {
	return readSeedFile(path, 0o077)
}

func readSeedFile(path string, forbidden os.FileMode) (Seed, error) {
	f, err := os.Open(path)
	if err != nil {
		return Seed{}, errors.Wrap(err, "cannot read seed")
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Seed{}, errors.Wrap(err, "cannot read seed")
	}
	if !info.Mode().IsRegular() {
		return Seed{}, errors.Errorf("cannot read seed %s: it isn't a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return Seed{}, errors.Errorf("cannot read seed %s: its mode is %04o, group and others must have no access: chmod 600 %s", path, mode, path)
	}
	content, err := io.ReadAll(io.LimitReader(f, 2*SeedSize))
	if err != nil {
		return Seed{}, errors.Wrap(err, "cannot read seed")
	}
	seed, err := DecodeSeed(content)
	return seed, errors.Wrap(err, path)
}

// WriteSeedFile writes a seed file with that mode (NodeSeedMode,
// UserSeedMode). It is there whole or not at all, also after a crash, and
// never replaces a file: a lost key can't be made again. The error is
// os.ErrExist when there is one.
func WriteSeedFile(path string, k KeyPair, mode os.FileMode) error {
	return errors.Wrapf(writeSeedFile(path, EncodeSeed(k), mode), "cannot write seed %s", path)
}

func writeSeedFile(path string, content []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	// CreateTemp makes it 0600: nobody else sees the seed at any time.
	f, err := os.CreateTemp(dir, ".seed-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(f, bytes.NewReader(content)); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// A link fails where a rename would replace.
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
