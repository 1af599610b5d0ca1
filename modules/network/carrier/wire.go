package carrier

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// protocol is the version of what is said on the control socket. A client and
// a carrier of different ones have opInfo and opStop in common, for ever.
const protocol = 1

// The operations.
const (
	opInfo         = "info"
	opStop         = "stop"
	opSetDevice    = "set-device"
	opRemoveDevice = "remove-device"
	opDevices      = "devices"
	opSetZone      = "set-zone"
	opRemoveZone   = "remove-zone"
	opZones        = "zones"
)

// Bounds of a line, in bytes.
const (
	maxRequest  = 4 << 20
	maxResponse = 64 << 20
)

// request is one line of JSON, the only one of its connection.
type request struct {
	Version int               `json:"version"`
	Op      string            `json:"op"`
	ID      string            `json:"id,omitempty"`
	Device  *wireguard.Config `json:"device,omitempty"`
	Zone    *Zone             `json:"zone,omitempty"`
}

// response is the one line that answers.
type response struct {
	Version int                `json:"version"`
	Error   *carrier.Failure   `json:"error,omitempty"`
	Info    *Info              `json:"info,omitempty"`
	Devices []wireguard.Status `json:"devices,omitempty"`
	Zones   []ZoneStatus       `json:"zones,omitempty"`
}

// Info is what a carrier says of itself.
type Info struct {
	PID int `json:"pid"`
	// Protocol is the version of what it understands, Version that of croft.
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	// Memory is its RssAnon in bytes.
	Memory  uint64 `json:"memory"`
	Devices int    `json:"devices"`
	Zones   int    `json:"zones"`
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
	if head.Op == opInfo || head.Op == opStop {
		return request{Version: head.Version, Op: head.Op}, nil
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
	return r, r.check()
}

// check says what a request lacks.
func (r request) check() error {
	lacks := ""
	switch r.Op {
	case opSetDevice:
		lacks = missing(r.Device == nil, "device", missing(r.ID == "", "id", ""))
	case opRemoveDevice, opRemoveZone:
		lacks = missing(r.ID == "", "id", "")
	case opSetZone:
		lacks = missing(r.Zone == nil, "zone", "")
	case opDevices, opZones:
	default:
		return node.Errorf(node.Invalid, "cannot do %q: there is no such operation", r.Op)
	}
	if lacks != "" {
		return node.Errorf(node.Invalid, "cannot do %s: %s is missing", r.Op, lacks)
	}
	if len(r.ID) > maxID {
		return node.Errorf(node.Invalid, "cannot do %s: the id has %d bytes, at most %d are allowed", r.Op, len(r.ID), maxID)
	}
	return nil
}

// maxID is the longest ID in bytes: the alias of a link is at most 255.
const maxID = 200

func missing(is bool, name, otherwise string) string {
	if is {
		return name
	}
	return otherwise
}
