package carrier

import (
	"context"
	"net/netip"
)

// Zone is the names that the DNS server of one network answers.
type Zone struct {
	ID        string
	Namespace string
	Network   string
	Names     map[string][]netip.Addr
	// Servers are the name servers that are asked for other names; none are the carrier's own. Earlier carriers don't know the member: see
	// Info.Servers.
	Servers []netip.AddrPort `json:",omitempty"`
}

// ZoneStatus is how the DNS of one network is.
type ZoneStatus struct {
	ID string
	// NamespaceInode is that of the namespace that is listened in.
	NamespaceInode uint64
	// Digest is that of the names that are served.
	Digest string
	// Broken says why the DNS doesn't answer, empty when it does.
	Broken string
}

// Zones serve DNS inside networks.
type Zones interface {
	Set(ctx context.Context, z Zone) error
	Remove(ctx context.Context, id string) error
	// List has all zones, or the one of an ID if that isn't empty.
	List(only string) []ZoneStatus
	Close() error
}
