// Package store keeps the state of the node's networks on disk, for as long as the
// machine is up: {dir}/ID/state.json, and {dir}/netns/ID, the file that keeps the
// network's namespace. It holds {dir}/lock while it is open.
package store

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// stateFile is in a network's folder, netnsFolder has the namespaces of all.
const (
	stateFile   = "state.json"
	netnsFolder = "netns"
)

// Store is the folder of one node's networks. Open makes one.
type Store struct {
	dir  string
	lock *filelock.Lock
}

// Open locks the folder, which it makes. Busy when another process has it open.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, node.Errorf(node.Internal, "cannot make the networks' folder: %w", err)
	}
	lock, err := filelock.Try(filepath.Join(dir, "lock"))
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Busy, "cannot open the network module: another one has %s open", dir)
	}
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot lock the networks' folder: %w", err)
	}
	return &Store{dir: dir, lock: lock}, nil
}

// Close releases the lock.
func (s *Store) Close() error { return s.lock.Release() }

func (s *Store) folder(id string) string { return filepath.Join(s.dir, id) }

// Namespaces is the folder of the files that keep the networks' namespaces.
func (s *Store) Namespaces() string { return filepath.Join(s.dir, netnsFolder) }

// Namespace is the file that keeps the namespace of one network.
func (s *Store) Namespace(id string) string { return filepath.Join(s.Namespaces(), id) }

// Free returns Exist when a network without a state has no place: something that isn't croft's has the name of its
// namespace's file. A state comes before its namespace, and goes after it.
func (s *Store) Free(id string) error {
	if _, err := os.Lstat(s.folder(id)); err == nil {
		return nil
	}
	if _, err := os.Lstat(s.Namespace(id)); os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return node.Errorf(node.Internal, "cannot look for the namespace of network %s: %w", id, err)
	}
	return node.Errorf(node.Exist, "cannot make network %s: there is a namespace in its place that isn't croft's", id)
}

// Save writes a network's state. It is written before the effects that it names, so
// that there is nothing on the node without a record.
func (s *Store) Save(n *resource.Network) error {
	raw, err := json.Marshal(n.State)
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	if err := os.MkdirAll(s.folder(n.ID()), 0o700); err != nil {
		return node.Errorf(node.Internal, "cannot make the folder of network %s: %w", n.ID(), err)
	}
	if err := atomicfile.WriteFile(filepath.Join(s.folder(n.ID()), stateFile), raw, 0o600); err != nil {
		return node.Errorf(node.Internal, "cannot write the state of network %s: %w", n.ID(), err)
	}
	return nil
}

// Remove removes a network's folder.
func (s *Store) Remove(id string) error {
	if err := os.RemoveAll(s.folder(id)); err != nil {
		return node.Errorf(node.Internal, "cannot remove the folder of network %s: %w", id, err)
	}
	return nil
}

// RemoveAll removes the folder of all networks.
func (s *Store) RemoveAll() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return node.Errorf(node.Internal, "cannot remove the networks' folder: %w", err)
	}
	return nil
}

// Load reads the states of all networks, by ID. An unreadable one is logged and left
// alone: its reservation brings the network again.
func (s *Store) Load(log zerolog.Logger) (map[string]*resource.Network, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot read the networks' folder: %w", err)
	}
	out := map[string]*resource.Network{}
	for _, e := range entries {
		if !e.IsDir() || len(e.Name()) != resource.IDLength {
			continue
		}
		n, err := s.load(e.Name())
		if err != nil {
			log.Error().Str("type", "network").Str("step", "load").Err(err).Str("network", e.Name()).Msg("cannot read the state of a network: the network is made anew")
			continue
		}
		out[n.ID()] = n
	}
	return out, nil
}

func (s *Store) load(id string) (*resource.Network, error) {
	raw, err := os.ReadFile(filepath.Join(s.folder(id), stateFile))
	if err != nil {
		return nil, err
	}
	var state resource.State
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, err
	}
	n, err := resource.Restore(state, s.Namespace(id))
	if err != nil {
		return nil, err
	}
	if n.ID() != id {
		return nil, node.Errorf(node.Invalid, "cannot read network %s: its state is of %s", id, n.ID())
	}
	return n, nil
}
