package identity

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

const (
	// seedFile is the key's file in the module's folder.
	seedFile = "seed"
	// idFile has the ID of a node whose key the operator gives, which is in no file: without it, a start at which the key isn't given would make another
	// one, and another node.
	idFile = "node-id"
)

// Load returns the node's key: the given one, or, where none is given, that in dir. It changes nothing. os.ErrNotExist when there is none, Refused
// when it can't be this node's.
func Load(dir string, given *sign.KeyPair) (sign.KeyPair, error) {
	is, err := look(dir, given)
	return is.key, err
}

// Remembered is the ID of the node whose key was given, empty when none ever was.
func Remembered(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, idFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), errors.Wrap(err, "cannot read which node this machine is")
}

// known is what is known of the node's key.
type known struct {
	key sign.KeyPair
	// id is the ID that the folder remembers, empty for none.
	id string
	// unversioned is whether there is a seed file, which lacks its version.
	unversioned bool
}

// look looks for the key. Its error is os.ErrNotExist when there is none.
func look(dir string, given *sign.KeyPair) (known, error) {
	path := filepath.Join(dir, seedFile)
	id, err := Remembered(dir)
	if err != nil {
		return known{}, err
	}
	is := known{id: id}
	seed, err := readSeed(path)
	none := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !none:
		return is, node.WithKind(node.Refused, err)
	case !none && given != nil && given.ID() != seed.ID():
		return is, node.Errorf(node.Refused, "cannot use the given key, of node %s: this machine is node %s, whose key is in %s; take the given one away, or move the file away, "+
			"if that node may be given up", given.ID(), seed.ID(), path)
	case none && given == nil && id != "":
		return is, node.Errorf(node.Refused, "cannot find the key of node %s, which was given before: give it again, or put it into %s: %w", id, path, os.ErrNotExist)
	case none && given == nil:
		return is, err
	}
	is.key, is.unversioned = seed.KeyPair, !none && seed.Unversioned
	if given != nil {
		is.key = *given
	}
	if id != "" && id != is.key.ID() {
		return is, node.Errorf(node.Refused, "cannot use the key of node %s: this machine is node %s by %s; give that node's key, or move the file away, if that node may be given up",
			is.key.ID(), id, filepath.Join(dir, idFile))
	}
	return is, nil
}

// readSeed reads a seed file that nobody but root and this process's user can have made.
func readSeed(path string) (sign.Seed, error) {
	seed, err := sign.ReadPrivateSeedFile(path)
	if err != nil {
		return seed, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return sign.Seed{}, errors.Wrap(err, "cannot read seed")
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return sign.Seed{}, errors.Errorf("cannot read seed %s: it belongs to user %d, must be root's: chown root: %s", path, owner, path)
	}
	return seed, nil
}

// loadOrMake returns the key of dir, or the given one; it makes one where there is none.
func loadOrMake(dir string, given *sign.KeyPair) (sign.KeyPair, error) {
	path := filepath.Join(dir, seedFile)
	is, err := look(dir, given)
	if errors.Is(err, os.ErrNotExist) && is.id == "" {
		if err := makeSeed(dir, path); err != nil {
			return sign.KeyPair{}, err
		}
		is, err = look(dir, given)
	}
	if err == nil && given != nil && is.id == "" {
		err = remember(dir, given.ID())
	}
	if err != nil {
		return sign.KeyPair{}, node.WithKind(node.Refused, err)
	}
	if is.unversioned {
		err = addHeader(path, is.key)
	}
	return is.key, err
}

// remember notes which node this machine is.
func remember(dir, id string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Wrap(err, "cannot make the folder of the seed")
	}
	return errors.Wrap(atomicfile.WriteFile(filepath.Join(dir, idFile), []byte(id+"\n"), 0o400), "cannot note which node this machine is")
}

// makeSeed makes a key, unless another process has made one meanwhile.
func makeSeed(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Wrap(err, "cannot make the folder of the seed")
	}
	key, err := sign.Generate()
	if err != nil {
		return err
	}
	err = sign.WriteSeedFile(path, key, sign.NodeSeedMode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// addHeader replaces a seed file without a version by one that has it, with the
// same key. The old file stays until the new one is complete.
func addHeader(path string, key sign.KeyPair) error {
	err := atomicfile.WriteFile(path, sign.EncodeSeed(key), sign.NodeSeedMode)
	return errors.Wrapf(err, "cannot add the version to seed %s", path)
}
