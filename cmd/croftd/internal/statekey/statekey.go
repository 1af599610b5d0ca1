// Package statekey gets the key that seals the history of events: the operator's, or else the node's own.
package statekey

import (
	"crypto/rand"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/secret"
)

const (
	// size is the size of the key that seals the history, in bytes.
	size = 32
	// name is the name of the secret by which the operator gives that key.
	name = "state-key"
)

// Get returns the key that seals the history: the operator's, or else that of the file at path, which is made when it isn't there. A key of the
// operator's that differs from the file's is refused: the history that is there is sealed with the other one.
func Get(from secret.Provider, path string) ([]byte, error) {
	v, err := from.Secret(name)
	if node.KindOf(err) == node.NotExist {
		return own(path)
	}
	if err != nil {
		return nil, err
	}
	given, err := secret.Sized(name, v, size)
	if err != nil {
		return nil, err
	}
	kept, err := secret.File(path)
	if node.KindOf(err) == node.NotExist {
		return given, nil
	}
	if err != nil {
		return nil, err
	}
	if !kept.Equal(secret.New(given)) {
		return nil, node.Errorf(node.Refused, "cannot use secret %q: the history is sealed with the key in %s, which is another one: "+
			"take the secret away, or move the file away, and the history with it", name, path)
	}
	return given, nil
}

// own reads the node's own key, or makes it. One of another size is set aside: the history that it sealed is lost. One that others could read or
// have put there is refused. It asks nothing of the folder, which is the operator's: a folder that others can write to must not keep the node from
// starting.
func own(path string) ([]byte, error) {
	v, err := secret.File(path)
	switch kind := node.KindOf(err); {
	case err == nil && len(v.Reveal()) == size:
		return v.Reveal(), nil
	case err == nil || kind == node.Invalid: // one that is empty, or far too long, is invalid
		if err := os.Rename(path, path+".damaged"); err != nil {
			return nil, errors.Wrapf(err, "cannot set the damaged state's key %s aside", path)
		}
	case kind != node.NotExist:
		return nil, errors.WithMessage(err, "cannot read the state's key")
	}
	key := make([]byte, size)
	_, _ = rand.Read(key)
	return key, errors.Wrapf(atomicfile.WriteFile(path, key, 0o400), "cannot make the state's key %s", path)
}
