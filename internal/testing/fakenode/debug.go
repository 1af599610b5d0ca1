package fakenode

import (
	"slices"
	"strings"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
)

// MaxStreams is how many streams of log lines a Debug has at most.
const MaxStreams = 8

// Debug is the debug module's streams of log lines, which connect to nothing. It
// implements node.Debug.
type Debug struct {
	calls   *Calls
	mu      sync.Mutex
	streams map[string]node.DebugSpec
}

var _ node.Debug = (*Debug)(nil)

// NewDebug has no streams.
func NewDebug(calls *Calls) *Debug {
	return &Debug{calls: calls, streams: map[string]node.DebugSpec{}}
}

// Start implements node.Debug.
func (d *Debug) Start(spec node.DebugSpec) (node.DebugInfo, error) {
	return answer(d.calls, "Debug.Start", spec.ID, func() (node.DebugInfo, error) {
		what := "start log stream " + spec.ID
		if spec.ID == "" || spec.Host == "" || spec.Port == 0 || spec.Channel == "" {
			return node.DebugInfo{}, node.Errorf(node.Invalid, "cannot start log stream %q: ID, host, port and channel are all needed", spec.ID)
		}
		claim := node.Claim{Hash: spec.Hash}
		if err := claim.Valid(what); err != nil {
			return node.DebugInfo{}, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		have, ok := d.streams[spec.ID]
		switch {
		case !ok && len(d.streams) >= MaxStreams:
			return node.DebugInfo{}, node.Errorf(node.NoSpace, "cannot %s: this node has %d already", what, MaxStreams)
		case ok && claim.Check(what, have.Hash) != nil:
			return node.DebugInfo{}, claim.Check(what, have.Hash)
		case ok && have != spec:
			return node.DebugInfo{}, node.Errorf(node.Exist, "cannot %s: there is one to channel %s", what, have.Channel)
		}
		d.streams[spec.ID] = spec
		return info(spec), nil
	})
}

func info(s node.DebugSpec) node.DebugInfo {
	return node.DebugInfo{ID: s.ID, User: s.User, Host: s.Host, Port: s.Port, Channel: s.Channel, Hash: s.Hash, LastError: "not connected yet"}
}

// Stop implements node.Debug.
func (d *Debug) Stop(id string) error {
	return carryOut(d.calls, "Debug.Stop", id, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return drop(d.streams, id, "stop log stream")
	})
}

// List implements node.Debug.
func (d *Debug) List() ([]node.DebugInfo, error) {
	return answer(d.calls, "Debug.List", "", func() ([]node.DebugInfo, error) {
		out := []node.DebugInfo{}
		for _, spec := range d.Streams() {
			out = append(out, info(spec))
		}
		slices.SortFunc(out, func(a, b node.DebugInfo) int { return strings.Compare(a.ID, b.ID) })
		return out, nil
	})
}

// Restart ends all streams, as a restart of the module does.
func (d *Debug) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.streams)
}

// Put adds streams without any check.
func (d *Debug) Put(specs ...node.DebugSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, spec := range specs {
		d.streams[spec.ID] = spec
	}
}

// Streams are the specs of all streams, by ID.
func (d *Debug) Streams() map[string]node.DebugSpec {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cloned(d.streams)
}
