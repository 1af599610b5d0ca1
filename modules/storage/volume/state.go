package volume

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/btrfs"
)

// The state volume of a pool is stateFolder/stateName.
const (
	stateFolder = "node"
	stateName   = "state"
)

// StateRoot is the state volume's path in a pool's file system.
const StateRoot = "/" + stateFolder + "/" + stateName

// State is the state volume of a pool, which has the state of the node itself. Most pools have none.
type State struct{ subvolumes }

// NewState returns that of a pool. It isn't in the pool's index: that lies in the state volume itself.
func NewState(p Pool, log zerolog.Logger) *State {
	p.Index = ""
	s := &State{subvolumes{
		shelf: newShelf(p, "state volume", stateFolder, stateLabel), limits: &limits{}, mode: 0o755, log: log,
		room: func(size uint64) uint64 { return size },
	}}
	s.index.dir, s.optional = "", true
	return s
}

// Path is where it is while the pool is mounted.
func (s *State) Path() string { return s.Place(stateName) }

// Get returns its label, if there is one.
func (s *State) Get() (l Label, found bool, err error) { return s.Label(stateName) }

// Resize sets its size; its content stays. Busy when it holds more. The pool must have room to grow.
func (s *State) Resize(f *btrfs.FS, l Label, size uint64) error {
	if err := s.resize(f, l, size); err != nil {
		return err
	}
	return f.Sync()
}

// Unfinished reports whether a pool mounted at path is one that has just been formatted to get a state volume: nothing at all is on
// it, or half of a state volume.
func Unfinished(path string) (bool, error) {
	for _, folder := range []struct {
		path string
		mine func(name string) bool
	}{
		{path, func(name string) bool { return name == stateFolder }},
		{filepath.Join(path, stateFolder), func(name string) bool { return strings.HasPrefix(name, newPrefix) }},
	} {
		entries, err := os.ReadDir(folder.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, btrfs.Wrap(err, "cannot look at the pool")
		}
		for _, e := range entries {
			if !folder.mine(e.Name()) {
				return false, nil
			}
		}
	}
	return true, nil
}

// EnsureState makes the state volume of a mounted pool, of that size if there is none, and limits it as its label says.
// When it returns, the volume is on the disk.
func EnsureState(f *btrfs.FS, all All, size uint64, want Quota) (l Label, made bool, err error) {
	s := all.State
	if err := s.step("make state folder"); err != nil {
		return l, false, err
	}
	if err := s.makeFolder(0o711); err != nil {
		return l, false, err
	}
	l, found, err := s.Get()
	if err != nil {
		return l, false, err
	}
	if err := s.step("turn on quotas"); err != nil {
		return l, false, err
	}
	if err := all.turnOn(f, want, found); err != nil {
		return l, false, err
	}
	labels := map[string]Label{}
	if found {
		labels[stateName] = l
	}
	if err := s.repair(f, labels); err != nil {
		return l, false, err
	}
	if found {
		return l, false, nil
	}
	l = Label{Name: stateName, Size: size}
	if err := s.Create(f, l); err != nil {
		return l, false, err
	}
	if err := s.step("commit state volume"); err != nil {
		return l, false, err
	}
	return l, true, f.Sync()
}

// Folders makes the folders of volumes and disks, which a module makes when it prepares a pool, in one that has only a state volume.
func (a All) Folders() error {
	if err := a.Filesystems.makeFolder(0o711); err != nil {
		return err
	}
	return a.Disks.makeFolder(0o700)
}
