package node

import "github.com/croft-edge/croft/pkg/workload"

// The network module's address on the bus.
const (
	NetworkModule  = "network"
	NetworkObject  = "network"
	NetworkVersion = "0.1.0"

	NetworkInspectorObject  = "inspector"
	NetworkInspectorVersion = "0.1.0"

	TapObject  = "tap"
	TapVersion = "0.1.0"
)

// NetworkSpec asks for this node's part of a user's private network.
type NetworkSpec struct {
	// ID is the network resource's key on this node (the hex of
	// workload.NetworkKey); Label is the ID of its newest reservation.
	ID    string
	Label string
	// Hash is that reservation's hash.
	Hash string
	User string
	Name string
	// IPRange is the whole network's range, Subnet this node's part (IPv4 CIDR).
	IPRange string
	Subnet  string
	// PrivateKey is the opened base64 WireGuard key, PublicKey the one that the
	// peers know: Invalid when they aren't a pair.
	PrivateKey string
	PublicKey  string
	ListenPort uint16
	Peers      []workload.WireGuardPeer
}

// NetworkPeer is the state of the tunnel to a peer.
type NetworkPeer struct {
	PublicKey string `yaml:"public_key" protobuf:"1"`
	// Endpoint is its packets' present destination (IP:port), empty while unknown.
	Endpoint string `yaml:"endpoint" protobuf:"2"`
	// Handshake is the time of the last one, in Unix seconds; 0 for never.
	Handshake int64 `yaml:"handshake" protobuf:"3"`
	// Received and Sent are in bytes, since the tunnel was made.
	Received uint64 `yaml:"received" protobuf:"4"`
	Sent     uint64 `yaml:"sent" protobuf:"5"`
}

// NetworkInfo describes a network resource.
type NetworkInfo struct {
	ID    string `yaml:"id" protobuf:"1"`
	Label string `yaml:"label" protobuf:"2"`
	// Hash is the hash of the label's reservation, empty when a croft that recorded
	// none made the network.
	Hash    string `yaml:"hash" protobuf:"3"`
	User    string `yaml:"user" protobuf:"4"`
	Name    string `yaml:"name" protobuf:"5"`
	IPRange string `yaml:"ip_range" protobuf:"6"`
	Subnet  string `yaml:"subnet" protobuf:"7"`
	// Gateway and Gateway6 are this node's addresses in it, also of its DNS server.
	Gateway  string `yaml:"gateway" protobuf:"8"`
	Gateway6 string `yaml:"gateway6" protobuf:"9"`
	// Backend is "kernel" or "userspace".
	Backend    string `yaml:"backend" protobuf:"10"`
	ListenPort uint16 `yaml:"listen_port" protobuf:"11"`
	Namespace  string `yaml:"namespace" protobuf:"12"`
	// Members are all members, VMs among them.
	Members []Member      `yaml:"members" protobuf:"13"`
	Peers   []NetworkPeer `yaml:"peers" protobuf:"14"`
	// Drift describes its differences from how it was made, empty without any: Create
	// with the same spec repairs them.
	Drift string `yaml:"drift" protobuf:"15"`
}

// MemberSpec asks for membership in a network.
type MemberSpec struct {
	Network string
	// Member is the new member's ID. Its network namespace is the one that the
	// file Namespace (an absolute path) keeps, or that of the process PID:
	// exactly one of them is given.
	Member    string
	Namespace string
	PID       uint64
	// Name is the member's name in the network's DNS; empty for no name.
	Name string
	// IPs are the IPv4 addresses asked for; none: one is chosen.
	IPs       []string
	PublicIP6 bool
	// Hash is the reservation's, AdoptUnlabelled whether a member without a hash
	// counts as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// Member is a member of a network.
type Member struct {
	Network string `yaml:"network" protobuf:"1"`
	Member  string `yaml:"member" protobuf:"2"`
	Name    string `yaml:"name" protobuf:"3"`
	// Hash is the hash of its reservation (see Claim), empty without a reservation or
	// when a croft that recorded none made it.
	Hash string `yaml:"hash" protobuf:"4"`
	// IPs are all its IPv4 addresses, IPv4 the first of them, IPv6 its private one.
	IPs  []string `yaml:"ips" protobuf:"5"`
	IPv4 string   `yaml:"ipv4" protobuf:"6"`
	IPv6 string   `yaml:"ipv6" protobuf:"7"`
	// PublicIPv6 is its routable address on a second interface, empty without one.
	PublicIPv6 string `yaml:"public_ipv6" protobuf:"8"`
	Gateway    string `yaml:"gateway" protobuf:"9"`
	Gateway6   string `yaml:"gateway6" protobuf:"10"`
	// Drift describes its differences from how it was made, empty without any.
	Drift string `yaml:"drift" protobuf:"11"`
}

// NetworkStatus is the state of the module and of its dependencies on the node.
type NetworkStatus struct {
	// Backend is "kernel" or "userspace", Why the reason for the latter.
	Backend string `yaml:"backend" protobuf:"1"`
	Why     string `yaml:"why" protobuf:"2"`
	// Carrier is the process ID of the wg carrier, 0 while there is none;
	// CarrierMemory is in bytes (RssAnon).
	Carrier       uint64 `yaml:"carrier" protobuf:"3"`
	CarrierMemory uint64 `yaml:"carrier_memory" protobuf:"4"`
	Networks      uint64 `yaml:"networks" protobuf:"5"`
	Members       uint64 `yaml:"members" protobuf:"6"`
	// PublicRange is the range of public_ip6 addresses, empty for none.
	PublicRange string `yaml:"public_range" protobuf:"7"`
	// Drift describes the faults of the node's own part.
	Drift string `yaml:"drift" protobuf:"8"`
}

// Networks makes network resources. Bus: network.network@0.1.0.
type Networks interface {
	// Create makes it, or changes the one of that ID in place, whichever of its
	// user's reservations made that: unchanged parts aren't interrupted.
	// Invalid or Refused change nothing.
	Create(spec NetworkSpec) (NetworkInfo, error)
	// Delete removes it. Busy when it has members, NotExist when there is none.
	Delete(id string) error
	// List returns all that carry croft's label.
	List() ([]NetworkInfo, error)
	// Join adds a member, or repairs an existing one. Refused when an IP is
	// outside the subnet, the gateway's, or taken, and when a public address is
	// asked for and the node has none; Exist when the member of that ID belongs to
	// another reservation: it stays untouched. A member whose namespace is gone
	// keeps its place, with Drift, until it joins again or leaves.
	Join(spec MemberSpec) (Member, error)
	// Leave removes a member. NotExist when it isn't one.
	Leave(network, member string) error
	// Subnet and Gateway are this node's in the network (CIDR, and IP).
	Subnet(id string) (string, error)
	Gateway(id string) (string, error)
	// Status returns the module's state.
	Status() (NetworkStatus, error)
}

// NetworkInspector looks at some networks alone. Bus: network.inspector@0.1.0.
type NetworkInspector interface {
	// Inspect returns the networks that have one of these labels, as Networks.List does.
	Inspect(labels []string) ([]NetworkInfo, error)
}

// TapSpec asks for a VM's tap device in a network.
type TapSpec struct {
	Network string
	// VM is the ID of the tap's VM, a member of the network.
	VM   string
	Name string
	// IP is the VM's address, the only one that passes. Empty: one is chosen.
	IP string
	// Hash is the reservation's, AdoptUnlabelled whether a tap without a hash counts
	// as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// Tap is a tap device in a network's namespace, for one VM. It stays while no process
// has it open. Only root can open it, once at a time, with the flags IFF_TAP, IFF_NO_PI
// and IFF_VNET_HDR; who opens it may hand the file to another process.
type Tap struct {
	VM      string
	Network string
	// Name is the VM's name in the network's DNS, empty without one.
	Name string
	// Hash is the hash of its reservation (see Claim), empty without a reservation or
	// when a croft that recorded none made it.
	Hash   string
	Device string
	// MAC is the guest's, which it has to send with; the device's own is another. It
	// follows from the network and the IPv4 address: another VM that gets the address
	// later has it too.
	MAC string
	// Namespace is the path of the network namespace that holds it.
	Namespace string
	IPv4      string
	IPv6      string
	Gateway   string
	Gateway6  string
	// Drift describes its differences from how it was made, empty without any: Setup
	// with the same spec repairs them.
	Drift string
}

// Taps makes tap devices, one a VM. Bus: network.tap@0.1.0.
type Taps interface {
	// Setup makes it, or repairs and changes the one of that VM. Exist when that VM has
	// one in another network, and when the one that it has belongs to another
	// reservation: it stays untouched. Refused when the address is outside the subnet,
	// the gateway's, or taken. Who has the device open keeps it, unless it has to be made
	// anew because a part of it that can't be changed differs.
	Setup(spec TapSpec) (Tap, error)
	// Remove removes it. NotExist when there is none.
	Remove(vm string) error
	// List returns all taps.
	List() ([]Tap, error)
}
