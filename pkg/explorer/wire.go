package explorer

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// Resources are amounts of what a node offers: CPU in cores, the rest in GiB
// (the seed's units).
type Resources struct {
	CRU uint64 `json:"cru"`
	MRU uint64 `json:"mru"`
	HRU uint64 `json:"hru"`
	SRU uint64 `json:"sru"`
}

// Location is a node's place on the map.
type Location struct {
	City      string  `json:"city"`
	Country   string  `json:"country"`
	Continent string  `json:"continent"`
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// Iface is a network interface of a node.
type Iface struct {
	Name string `json:"name"`
	// Addrs are addresses with the length of their range; see CIDR.
	Addrs   []string `json:"addrs"`
	Gateway []string `json:"gateway"`
}

// CIDR is an address as Iface.Addrs has it: with the length of its range, as the
// seed's clients read it. One without is an address alone: /32, or /128. What isn't
// an address stays as it is.
func CIDR(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Zone() != "" {
		return address
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()).String()
}

// PublicConfig is a node's public network configuration, set by the farmer.
type PublicConfig struct {
	Master  string `json:"master"`
	Type    string `json:"type"`
	IPv4    string `json:"ipv4"`
	IPv6    string `json:"ipv6"`
	GW4     string `json:"gw4"`
	GW6     string `json:"gw6"`
	Version int    `json:"version"`
}

// Node is a node as the explorer knows it. Members and order are the seed's,
// then croft's own.
type Node struct {
	NodeID            string        `json:"node_id"`
	NodeIDv1          string        `json:"node_id_v1"`
	FarmID            uint64        `json:"farm_id"`
	OSVersion         string        `json:"os_version"`
	Created           int64         `json:"created"`
	Updated           int64         `json:"updated"`
	Uptime            int64         `json:"uptime"`
	Address           string        `json:"address"`
	Location          Location      `json:"location"`
	TotalResources    Resources     `json:"total_resources"`
	UsedResources     Resources     `json:"used_resources"`
	ReservedResources Resources     `json:"reserved_resources"`
	Proofs            []any         `json:"proofs"`
	Ifaces            []Iface       `json:"ifaces"`
	PublicConfig      *PublicConfig `json:"public_config"`
	WGPorts           []uint        `json:"wg_ports"`
	Approved          bool          `json:"approved"`
	PublicKeyHex      string        `json:"public_key_hex"`

	// Online is whether the node was heard of within the last five minutes.
	Online bool `json:"online"`
	// Birth is the ID of the node's store (see workload.Result).
	Birth string `json:"birth,omitempty"`
	// FreeResources is how much is left for new workloads, for plans.
	FreeResources *Resources `json:"free_resources,omitempty"`
	// Door is where users speak to the node itself (HOST:PORT); empty where it
	// has no address for that, and keeps a tunnel open instead.
	Door string `json:"door,omitempty"`
	// Grant is the farm owner's word that this node may join the farm FarmID.
	// It is sent at registration and not shown; the explorer keeps the one by which
	// the node joined last.
	Grant *Grant `json:"farm_grant,omitempty"`
}

// Heartbeat is what a node says about itself again and again.
type Heartbeat struct {
	// Uptime is in seconds.
	Uptime        int64      `json:"uptime"`
	UsedResources *Resources `json:"used_resources,omitempty"`
	FreeResources *Resources `json:"free_resources,omitempty"`
	// Birth is the ID of the node's store.
	Birth string `json:"birth,omitempty"`
}

// Ports are the WireGuard ports that a node has in use.
type Ports struct {
	Ports []uint `json:"ports"`
}

// Farm is a named group of nodes with one owner.
type Farm struct {
	ID   uint64 `json:"id"`
	Name string `json:"name"`
	// Owner is the user ID that signs which nodes may join.
	Owner   string    `json:"owner"`
	Created time.Time `json:"created"`
}

// Info is what an explorer says about itself.
type Info struct {
	Version string `json:"version"`
	// Epoch names the explorer's database.
	Epoch string `json:"epoch"`
	// Time is the explorer's clock.
	Time time.Time `json:"time"`
	// AcceptSignatureV1 and AcceptUnsignedNodeWrites say what the operator
	// allows to clients of the seed's time.
	AcceptSignatureV1        bool `json:"accept_signature_v1"`
	AcceptUnsignedNodeWrites bool `json:"accept_unsigned_node_writes"`
	// MaxDuration is the longest duration of a reservation, in nanoseconds.
	MaxDuration time.Duration `json:"max_duration"`
	// MaxWait is the longest wait of a long poll, in nanoseconds.
	MaxWait time.Duration `json:"max_wait"`
	// MaxBody is the largest request body, in bytes.
	MaxBody int64 `json:"max_body"`
}

// Reservation is a reservation as the explorer shows it: the document, byte
// for byte, with the node's result.
type Reservation struct {
	workload.Reservation
	// Result is null until the node has answered.
	Result *workload.Result `json:"result"`
}

// Cursor is a place in a node's stream of changes. The zero Cursor is the start.
type Cursor struct {
	// Epoch names the explorer's database; a new one means: start again.
	Epoch string `json:"epoch"`
	// Change is the last change number that was handled.
	Change uint64 `json:"change"`
}

// Page answers a poll with ?after=CHANGE&epoch=EPOCH.
type Page struct {
	// Epoch names the explorer's database, Head is the node's newest change.
	Epoch string `json:"epoch"`
	Head  uint64 `json:"head"`
	// Next is the cursor's Change once this page is handled.
	Next uint64 `json:"next"`
	// Resync says that the cursor asked for isn't of this database (unknown
	// epoch, or behind it): this page starts again from 0.
	Resync bool `json:"resync"`
	// Time is the explorer's clock when it answered.
	Time time.Time `json:"time"`
	// Reservations are the documents as they came, with deletion and renewal,
	// in the order of their change; each as it is now.
	Reservations []json.RawMessage `json:"reservations"`
}

// Problem is an error answer: RFC 9457 problem+json, with the seed's member.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field, Value and Allowed describe the one wrong member of a request, if it was one.
	Field   string `json:"field,omitempty"`
	Value   string `json:"value,omitempty"`
	Allowed string `json:"allowed,omitempty"`
	// Kind is the node.Kind of the failure.
	Kind string `json:"kind"`
	// Existing is the ID of the object that exists already, where that is the reason.
	Existing string `json:"existing,omitempty"`
	// Time is what the explorer would have accepted where a signed write's
	// time was refused: its clock, or just after the key's last write.
	Time *time.Time `json:"time,omitempty"`
	// Error is the seed's form of Detail.
	Error string `json:"Error"`
}
