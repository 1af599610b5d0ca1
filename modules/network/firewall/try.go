package firewall

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Try says which of the rules this kernel can't hold; nil when it can hold all. It makes rules of all kinds, in a namespace
// that ends at once.
func Try() error {
	return netns.New(func() error { return try(samples(), applied) })
}

// samples are rules of all kinds: those of a node, and of a network.
func samples() []table {
	member := Port{Name: "port", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, IPs: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}}
	network := Network{
		Bridge: "bridge", Uplink: "uplink", Tunnel: "tunnel", Ports: []Port{member},
		Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")},
	}
	machine := Node{
		Table: "croft-try", Uplink: "u-", Public: "p-",
		Uplinks4: netip.MustParsePrefix("169.254.64.0/18"), Uplinks6: netip.MustParsePrefix("fd01::/64"),
		Refuse: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fc00::/7")},
		Allow:  []Allowed{{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Port: 80}, {Prefix: netip.MustParsePrefix("fd02::/16")}},
		Open:   Ports{First: 9900, Last: 9963}, Closed4: true, Closed6: true,
	}
	return append(network.tables(), machine.tables()...)
}

// applied puts tables into the thread's namespace.
func applied(tables []table) error {
	_, err := apply("/proc/thread-self/ns/net", tables)
	return err
}

// try names the expressions that are in no rule that can be held, and in one that can't.
func try(tables []table, apply func([]table) error) error {
	failure := apply(tables)
	if failure == nil {
		return nil
	}
	held, refused := map[string]bool{}, map[string]bool{}
	for _, t := range tables {
		for _, one := range t.alone() {
			into := held
			if apply([]table{one}) != nil {
				into = refused
			}
			for _, c := range one.chains {
				for _, r := range c.rules {
					for _, e := range r {
						into[kind(e)] = true
					}
				}
			}
		}
	}
	maps.DeleteFunc(refused, func(name string, _ bool) bool { return held[name] })
	if len(refused) == 0 || len(held) == 0 {
		return failure
	}
	return node.Errorf(node.Refused, "cannot make rules with %s: %w", strings.Join(slices.Sorted(maps.Keys(refused)), ", "), failure)
}

// alone is the table with each of its rules alone.
func (t table) alone() []table {
	var out []table
	for i, c := range t.chains {
		for _, r := range c.rules {
			one := t
			one.chains = slices.Clone(t.chains)
			for j := range one.chains {
				one.chains[j].rules = nil
			}
			one.chains[i].rules = []rule{r}
			out = append(out, one)
		}
	}
	return out
}

// kind is an expression's name, such as "fib".
func kind(e expr.Any) string {
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "*expr."))
}
