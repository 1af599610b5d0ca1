package node

import "github.com/croft-edge/croft/pkg/workload"

// Where the network module is found on the bus.
const (
	NetworkModule  = "network"
	NetworkObject  = "network"
	NetworkVersion = "0.1.0"

	TapObject  = "tap"
	TapVersion = "0.1.0"
)

// NetworkSpec asks for this node's part of a user's private network.
type NetworkSpec struct {
	// ID is the network resource's key on this node; Label the reservation's ID.
	ID    string
	Label string
	User  string
	Name  string
	// IPRange is the whole network's range, Subnet this node's part (CIDR).
	IPRange string
	Subnet  string
	// PrivateKey is the opened base64 WireGuard key.
	PrivateKey string
	ListenPort uint16
	Peers      []workload.WireGuardPeer
}

// NetworkInfo is what is known of a network resource.
type NetworkInfo struct {
	ID      string
	Label   string
	User    string
	Name    string
	Subnet  string
	Gateway string
	// Backend is "kernel" or "userspace".
	Backend string
	Members []string
}

// MemberSpec asks for a place in a network.
type MemberSpec struct {
	Network string
	// Member is the ID of who joins; PID its process, whose network namespace is used.
	Member string
	PID    uint64
	// Name is what the network's DNS answers to.
	Name      string
	IPs       []string
	PublicIP6 bool
}

// Member is a place in a network.
type Member struct {
	Network string
	Member  string
	IPv4    string
	IPv6    string
	Gateway string
}

// Networks makes network resources. Bus: network.network@0.1.0.
type Networks interface {
	// Create makes it, or changes the one of that ID in place.
	Create(spec NetworkSpec) (NetworkInfo, error)
	// Delete removes it. Busy when it has members, NotExist when there is none.
	Delete(id string) error
	// List returns all that carry croft's label.
	List() ([]NetworkInfo, error)
	// Join adds a member. Refused when an IP is outside the subnet, the
	// gateway's, or taken.
	Join(spec MemberSpec) (Member, error)
	// Leave removes a member. NotExist when it isn't one.
	Leave(network, member string) error
	// Subnet and Gateway are this node's, of the network (CIDR, and IP).
	Subnet(id string) (string, error)
	Gateway(id string) (string, error)
}

// Tap is a tap device in a network's namespace, for one VM.
type Tap struct {
	VM      string
	Network string
	Device  string
	MAC     string
	// Namespace is the path of the network namespace that holds it.
	Namespace string
}

// Taps makes tap devices, one a VM. Bus: network.tap@0.1.0.
type Taps interface {
	// Setup makes it, or returns the one of that VM.
	Setup(network, vm string) (Tap, error)
	// Remove removes it. NotExist when there is none.
	Remove(vm string) error
	// List returns all taps.
	List() ([]Tap, error)
}
