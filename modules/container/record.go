package container

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	recordVersion = 1
	// firstPause and lastPause are how long a container that ends by itself
	// waits until it is started again: doubling, until it ran for enough.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Minute
	enough     = time.Minute
	// lastLines are kept of what it said before it ended.
	lastLines = 20
)

// record is what is known of a container beside what containerd knows. It is
// written whole whenever it changes.
type record struct {
	Version int
	ID      string
	User    string
	// Hash says whose it is, see node.Claim; records of an older croft have none.
	Hash string `json:",omitempty"`
	// Root is what its root file system is made of.
	Root rootfs.Spec
	// Wanted is whether it is to run. Started and the others are Unix
	// nanoseconds, 0 for never; Pause is the last pause.
	Wanted   bool
	Started  int64
	Restarts uint64
	ExitCode uint64
	Ended    int64
	Next     int64
	Pause    time.Duration
	Cause    string
	// OOM is that of node.ContainerInfo, of the last exit.
	OOM     string `json:",omitempty"`
	LastLog []string
}

// fail notes why a start failed, and when the next comes.
func (r *record) fail(cause string, now time.Time) {
	r.Cause = cause
	r.schedule(now)
}

// exit notes an exit that nobody asked for, and when the next start comes. What the
// kernel had to do with it is noted beside.
func (r *record) exit(code uint64, at, now time.Time) {
	if r.Started != 0 && at.Sub(time.Unix(0, r.Started)) >= enough {
		r.Pause = 0
	}
	r.ExitCode, r.Ended, r.Cause, r.OOM = code, at.UnixNano(), "", ""
	r.schedule(now)
}

func (r *record) schedule(now time.Time) {
	r.Pause = min(max(2*r.Pause, firstPause), lastPause)
	jitter := 0.8 + 0.4*rand.Float64()
	r.Next = now.Add(time.Duration(float64(r.Pause) * jitter)).UnixNano()
}

// start notes that it runs.
func (r *record) start(now time.Time) {
	if r.Started != 0 {
		r.Restarts++
	}
	r.Wanted, r.Started, r.Next, r.Cause = true, now.UnixNano(), 0, ""
}

// due is how long its next start is away. A clock that was set doesn't make
// it wait for ever.
func (r *record) due(now time.Time) time.Duration {
	left := time.Unix(0, r.Next).Sub(now)
	if left > 2*lastPause {
		return 0
	}
	return max(left, 0)
}

func (c Config) recordPath(id string) string { return filepath.Join(c.supervised(), id+".json") }

func (c Config) writeRecord(r record) error {
	r.Version = recordVersion
	raw, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.WriteFile(c.recordPath(r.ID), raw, 0o600)
	}
	if err != nil {
		return node.Errorf(node.Internal, "cannot write the record of container %s: %w", r.ID, err)
	}
	return nil
}

func (c Config) removeRecord(id string) error {
	if err := os.Remove(c.recordPath(id)); err != nil && !os.IsNotExist(err) {
		return node.Errorf(node.Internal, "cannot remove the record of container %s: %w", id, err)
	}
	return nil
}

func (c Config) readRecord(id string) (record, error) {
	raw, err := os.ReadFile(c.recordPath(id))
	var r record
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && (r.ID != id || r.Version != recordVersion || r.User == "") {
		err = node.Errorf(node.Internal, "cannot use the record of container %s: it is another's, or of another version", id)
	}
	return r, err
}

// readRecords reads them all. A damaged one is as none: the container shows as
// one that has to be made right.
func (c Config) readRecords() (map[string]record, error) {
	entries, err := os.ReadDir(c.supervised())
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot read the records of containers: %w", err)
	}
	out := map[string]record{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || checkID(id) != nil {
			continue
		}
		r, err := c.readRecord(id)
		if err != nil {
			c.Log.Warn().Err(err).Str("id", id).Str("type", "container").Msg("a damaged record is left out")
			continue
		}
		out[id] = r
	}
	return out, nil
}
