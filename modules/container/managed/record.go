package managed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

const recordVersion = 1

// Record is the module's document about a container: its specification, and its present state.
// It is written whole whenever it changes.
type Record struct {
	Version int
	ID      string
	User    string
	// Hash says whose it is, see node.Claim; records of an older croft have none.
	Hash string `json:",omitempty"`
	// Root is the spec of its root file system.
	Root rootfs.Spec
	// Wanted is whether it is to run. Started, Ended and Next, when it is started again, are Unix
	// nanoseconds, 0 for never; Pause is the pause before the last restart.
	Wanted   bool
	Started  int64
	Restarts uint64
	ExitCode uint64
	Ended    int64
	Next     int64
	Pause    time.Duration
	// Cause is why the last start failed.
	Cause string
	// OOM is that of node.ContainerInfo, of the last exit.
	OOM string `json:",omitempty"`
	// LastLog are the last lines of its log before it ended.
	LastLog []string
}

// Store keeps records as files in a folder.
type Store struct {
	Dir string
	Log zerolog.Logger
}

func (s Store) path(id string) string { return filepath.Join(s.Dir, id+".json") }

// Write replaces the record of its container.
func (s Store) Write(r Record) error {
	r.Version = recordVersion
	raw, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.WriteFile(s.path(r.ID), raw, 0o600)
	}
	if err != nil {
		return node.Errorf(node.Internal, "cannot write the record of container %s: %w", r.ID, err)
	}
	return nil
}

// Remove removes the record of a container, if there is one.
func (s Store) Remove(id string) error {
	if err := os.Remove(s.path(id)); err != nil && !os.IsNotExist(err) {
		return node.Errorf(node.Internal, "cannot remove the record of container %s: %w", id, err)
	}
	return nil
}

// Read reads the record of a container.
func (s Store) Read(id string) (Record, error) {
	raw, err := os.ReadFile(s.path(id))
	var r Record
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && (r.ID != id || r.Version != recordVersion || r.User == "") {
		err = node.Errorf(node.Internal, "cannot use the record of container %s: it is another's, or of another version", id)
	}
	return r, err
}

// User is the user that the record of a container names; empty without a usable record.
func (s Store) User(id string) string {
	r, err := s.Read(id)
	if err != nil {
		return ""
	}
	return r.User
}

// ReadAll reads all records by their IDs. A damaged one is left out: its container shows as
// one that must be made again.
func (s Store) ReadAll() (map[string]Record, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot read the records of containers: %w", err)
	}
	out := map[string]Record{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || plan.CheckID(id) != nil {
			continue
		}
		r, err := s.Read(id)
		if err != nil {
			s.Log.Warn().Str("id", id).Str("type", "container").Str("step", "load").Err(err).Msg("a damaged record is ignored")
			continue
		}
		out[id] = r
	}
	return out, nil
}
