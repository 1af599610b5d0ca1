package networks

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// nodeKey is a node's private key on its way into a file.
type nodeKey struct {
	// path is the file's, named its form in the project file.
	path, named     string
	private, public string
	made            bool
}

// nodeKey makes the key, or takes the one that is in the file of the flag.
func (s *commands) nodeKey(c *cli.Context, d *draft, n *project.Network, id string) (*nodeKey, error) {
	folder := filepath.Dir(d.path)
	k := &nodeKey{path: c.String("key")}
	if k.path == "" {
		k.path = filepath.Join(folder, "keys", n.Name+"-"+id[:8]+".key")
		if _, err := os.Lstat(k.path); err == nil {
			return nil, errors.Errorf("%s exists, and a key is never replaced; --key %s uses it, or names another file", k.path, k.path)
		}
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return nil, errors.Wrap(err, "cannot name the key's file")
	}
	to, err := filepath.Abs(k.path)
	if err != nil {
		return nil, errors.Wrap(err, "cannot name the key's file")
	}
	if k.named, err = filepath.Rel(from, to); err != nil {
		return nil, errors.Wrap(err, "cannot name the key's file")
	}
	k.made = true
	if info, err := os.Stat(k.path); err == nil {
		k.made = false
		if info.Mode().Perm()&0o077 != 0 {
			return nil, errors.Errorf("%s may be read by others (mode %04o), must be 0600", k.path, info.Mode().Perm())
		}
	}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, k.alone(n, d.source(s.Env))
}

func (k *nodeKey) read() (err error) {
	if k.made {
		if k.private, err = mesh.NewKey(); err != nil {
			return err
		}
	} else {
		content, err := os.ReadFile(k.path)
		if err != nil {
			return errors.Wrap(err, "cannot read key")
		}
		k.private = strings.TrimSpace(string(content))
	}
	k.public, err = mesh.PublicKey(k.private)
	return errors.WithMessage(err, k.path)
}

// alone checks that nobody in the network has the same key. Keys that can't be
// opened here are looked at by apply.
func (k *nodeKey) alone(n *project.Network, open func(*project.Secret) (string, error)) error {
	for i, one := range n.Nodes {
		if key, err := n.PublicKey(i, open); err == nil && key == k.public {
			return errors.Errorf("%s is the key of node %s already; each needs one of its own", k.path, one.ID)
		}
	}
	return nil
}

func (k *nodeKey) write() error {
	if !k.made {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return errors.Wrap(err, "cannot write key")
	}
	return writeSecret(k.path, k.private+"\n")
}

// takeBack removes a new key whose node wasn't added.
func (k *nodeKey) takeBack() {
	if k.made {
		_ = os.Remove(k.path)
	}
}
