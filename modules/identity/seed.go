package identity

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// seedFile is the key's file in the module's folder.
const seedFile = "seed"

// loadOrMake reads the key of dir, or makes one when there is no file.
func loadOrMake(dir string) (sign.KeyPair, error) {
	path := filepath.Join(dir, seedFile)
	seed, err := sign.ReadPrivateSeedFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeSeed(dir, path); err != nil {
			return sign.KeyPair{}, err
		}
		seed, err = sign.ReadPrivateSeedFile(path)
	}
	if err != nil {
		return sign.KeyPair{}, node.WithKind(node.Refused, err)
	}
	if seed.Unversioned {
		err = addHeader(path, seed.KeyPair)
	}
	return seed.KeyPair, err
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
