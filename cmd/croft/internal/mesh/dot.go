package mesh

import (
	"fmt"
	"net/netip"
	"strings"
)

// Dot is the network as a graph in Graphviz' language: boxes are nodes,
// ellipses accesses; those that can't be called are dashed. An arrow shows the
// ranges that one peer sends directly to another.
func (n Network) Dot() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("digraph %s {", quoted(n.Name))
	line("  label=%s;", quoted(n.Name, n.IPRange.String()))
	line("  node [shape=box];")
	for _, one := range n.Nodes {
		if one.Hidden() {
			line("  %s [label=%s, style=dashed];", quoted("node "+one.ID), quoted(one.ID, one.Subnet.String(), "hidden"))
			continue
		}
		line("  %s [label=%s];", quoted("node "+one.ID), quoted(one.ID, one.Subnet.String(), one.Endpoint))
	}
	for _, one := range n.Access {
		line("  %s [label=%s, shape=ellipse, style=dashed];", quoted("access "+one.Name), quoted(one.Name, one.Subnet.String()))
	}
	for i, one := range n.Nodes {
		for _, p := range n.Peers(i) {
			line("  %s -> %s [label=%s%s];", quoted("node "+one.ID), quoted(p.name()), quoted(texts(p.AllowedIPs)...), answers(p.Endpoint))
		}
	}
	for _, one := range n.Access {
		line("  %s -> %s [label=%s];", quoted("access "+one.Name), quoted("node "+one.Via), quoted(n.IPRange.String(), TunnelRange))
	}
	b.WriteString("}\n")
	return b.String()
}

func (p Peer) name() string {
	if p.Access != nil {
		return "access " + p.Access.Name
	}
	return "node " + p.Node.ID
}

// answers marks an arrow that can only be answered along.
func answers(endpoint string) string {
	if endpoint == "" {
		return ", style=dashed"
	}
	return ""
}

func texts(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.String()
	}
	return out
}

// quoted is a string of lines in Graphviz' language, where a backslash and a
// quote need one before them.
func quoted(lines ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ")
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = escape.Replace(l)
	}
	return `"` + strings.Join(out, `\n`) + `"`
}
