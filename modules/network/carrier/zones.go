package carrier

import (
	"context"
	"net/netip"
)

// Zone is what the DNS server of one network answers.
type Zone struct {
	ID        string
	Namespace string
	Network   string
	Names     map[string][]netip.Addr
}

// ZoneStatus is how the DNS of one network is.
type ZoneStatus struct {
	ID        string
	Namespace string
}

// Zones serve DNS inside networks.
type Zones interface {
	Set(ctx context.Context, z Zone) error
	Remove(ctx context.Context, id string) error
	List() []ZoneStatus
	Close() error
}
