package carrier

import (
	"context"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/dns"
)

// DNS makes the zones' server, which forwards other names to upstreams;
// none are those of /etc/resolv.conf.
func DNS(upstreams []netip.AddrPort) func(log zerolog.Logger) (Zones, error) {
	return func(log zerolog.Logger) (Zones, error) {
		s, err := dns.New(dns.Config{Upstreams: upstreams, Log: log})
		if err != nil {
			return nil, err
		}
		return names{s}, nil
	}
}

// names adapts a DNS server to Zones.
type names struct{ server *dns.Server }

// Set implements Zones.
func (n names) Set(ctx context.Context, z Zone) error {
	return n.server.Set(ctx, dns.Zone(z))
}

// Digest tells the names of a zone from others, as ZoneStatus has it.
func Digest(z Zone) string { return dns.Zone(z).Digest() }

// Remove implements Zones.
func (n names) Remove(ctx context.Context, id string) error { return n.server.Remove(ctx, id) }

// List implements Zones.
func (n names) List(only string) []ZoneStatus {
	list := n.server.List(only)
	out := make([]ZoneStatus, 0, len(list))
	for _, z := range list {
		out = append(out, ZoneStatus{ID: z.ID, NamespaceInode: z.NamespaceInode, Digest: z.Digest, Broken: z.Err})
	}
	return out
}

// Close implements Zones.
func (n names) Close() error { return n.server.Close() }
