package carrier

import (
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// kind is the wg carrier's, below {run}/wg.
func kind() carrier.Kind {
	return carrier.Kind{Name: "wg", Title: "carrier", Protocol: protocol, MaxRequest: maxRequest, MaxAnswer: maxResponse}
}

// protocol is the version of the operations and documents below.
const protocol = 1

// The operations.
const (
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

// deviceRequest is of opSetDevice.
type deviceRequest struct {
	ID     string            `json:"id,omitempty"`
	Device *wireguard.Config `json:"device,omitempty"`
}

// idRequest is of opRemoveDevice and opRemoveZone, and of opDevices, where an
// empty ID is all of them.
type idRequest struct {
	ID string `json:"id,omitempty"`
}

// zoneRequest is of opSetZone.
type zoneRequest struct {
	Zone *Zone `json:"zone,omitempty"`
}

// devicesAnswer is of opDevices.
type devicesAnswer struct {
	Devices []wireguard.Status `json:"devices,omitempty"`
}

// zonesAnswer is of opZones.
type zonesAnswer struct {
	Zones []ZoneStatus `json:"zones,omitempty"`
}

// Info describes a carrier process.
type Info struct {
	carrier.Info
	// Servers is whether zones may have Servers: earlier carriers have those that they were started with.
	Servers bool `json:"servers,omitempty"`
	Devices int  `json:"devices"`
	Zones   int  `json:"zones"`
}

// maxID is the longest ID in bytes: the alias of a link is at most 255.
const maxID = 200

// checkID refuses an ID that is too long, and a missing one.
func checkID(op, id string) error {
	if id == "" {
		return missing(op, "id")
	}
	if len(id) > maxID {
		return node.Errorf(node.Invalid, "cannot do %s: the id has %d bytes, at most %d are allowed", op, len(id), maxID)
	}
	return nil
}

func missing(op, member string) error {
	return node.Errorf(node.Invalid, "cannot do %s: %s is missing", op, member)
}
