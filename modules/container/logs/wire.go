package logs

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// protocol is the version of what is said on the control socket. A client and
// a carrier of different ones have opInfo and opStop in common, for ever.
const protocol = 2

// The operations.
const (
	opInfo = "info"
	opStop = "stop"
	opOpen = "open"
	opDrop = "drop"
	opList = "list"
)

// Bounds of a line, in bytes.
const (
	maxRequest  = 64 << 10
	maxResponse = 16 << 20
)

// request is one line of JSON, the only one of its connection.
type request struct {
	Version int    `json:"version"`
	Op      string `json:"op"`
	ID      string `json:"id,omitempty"`
	// User is of opOpen: whose container it is.
	User string `json:"user,omitempty"`
	// KeepFiles is of opDrop.
	KeepFiles bool `json:"keep_files,omitempty"`
}

// response is the one line that answers.
type response struct {
	Version int              `json:"version"`
	Error   *carrier.Failure `json:"error,omitempty"`
	Info    *Info            `json:"info,omitempty"`
	FIFOs   *FIFOs           `json:"fifos,omitempty"`
	IDs     []string         `json:"ids,omitempty"`
}

// Info is what a carrier says of itself.
type Info struct {
	PID int `json:"pid"`
	// Protocol is the version of what it understands, Version that of croft.
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	// Memory is its RssAnon in bytes.
	Memory     uint64 `json:"memory"`
	Containers int    `json:"containers"`
	// Dir, Size and Files are its settings.
	Dir   string `json:"dir"`
	Size  int64  `json:"size"`
	Files int    `json:"files"`
	// Limits is how often each limit was reached, by name.
	Limits map[string]uint64 `json:"limits,omitempty"`
}

// parseRequest reads a request. What a version doesn't know is refused, not ignored.
func parseRequest(line []byte) (request, error) {
	var head struct {
		Version int    `json:"version"`
		Op      string `json:"op"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return request{}, node.Errorf(node.Invalid, "cannot read the request: it isn't one line of JSON")
	}
	switch head.Op {
	case opInfo, opStop:
		return request{Version: head.Version, Op: head.Op}, nil
	case opOpen, opDrop, opList:
	default:
		return request{}, node.Errorf(node.Invalid, "cannot do %q: there is no such operation", head.Op)
	}
	if head.Version != protocol {
		return request{}, node.Errorf(node.Invalid, "cannot do %q of version %d: this carrier speaks version %d", head.Op, head.Version, protocol)
	}
	var r request
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return request{}, node.Errorf(node.Invalid, "cannot read the request %q: %w", head.Op, err)
	}
	return r, nil
}
