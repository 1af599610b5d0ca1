package mesh

import (
	"fmt"
	"net/netip"
)

// Network is a private network across nodes.
type Network struct {
	Name    string
	IPRange netip.Prefix
	Nodes   []Node
	Access  []Access
}

// Node is a node's part of a network.
type Node struct {
	ID     string
	Subnet netip.Prefix
	// Port is the UDP port of its tunnels.
	Port uint16
	// Endpoint is HOST:PORT where others call it, empty for a hidden node.
	Endpoint string
}

// Hidden reports whether nobody can call the node.
func (n Node) Hidden() bool { return n.Endpoint == "" }

// Gateway is the node's own address in its subnet.
func (n Node) Gateway() netip.Addr { return n.Subnet.Addr().Next() }

// Access is an outside peer, such as a laptop, with access to the network.
type Access struct {
	Name   string
	Subnet netip.Prefix
	// PublicKey is in standard base64; the private one is nobody's business here.
	PublicKey string
	// Via is the ID of the public node that it calls.
	Via string
}

// Address is the one that it uses, the first of its subnet.
func (a Access) Address() netip.Addr { return a.Subnet.Addr().Next() }

// Find returns the node with that ID, nil when it isn't of the network.
func (n Network) Find(id string) *Node {
	for i := range n.Nodes {
		if n.Nodes[i].ID == id {
			return &n.Nodes[i]
		}
	}
	return nil
}

// FindAccess returns the access of that name, nil when there is none.
func (n Network) FindAccess(name string) *Access {
	for i := range n.Access {
		if n.Access[i].Name == name {
			return &n.Access[i]
		}
	}
	return nil
}

// Relay is where hidden nodes meet, the first public one; nil without one.
func (n Network) Relay() *Node {
	for i := range n.Nodes {
		if !n.Nodes[i].Hidden() {
			return &n.Nodes[i]
		}
	}
	return nil
}

// Apart are the hidden nodes that can't reach each other, for want of a relay.
func (n Network) Apart() []Node {
	if n.Relay() != nil || len(n.Nodes) < 2 {
		return nil
	}
	return append([]Node(nil), n.Nodes...)
}

// ApartWarning tells the user of hidden nodes that can't reach each other; empty for none.
func (n Network) ApartWarning() string {
	apart := n.Apart()
	if len(apart) == 0 {
		return ""
	}
	return fmt.Sprintf("the %d nodes of %s are all hidden, and can't reach each other until it has a public one: `croft network add-node %s NODE --endpoint HOST`", len(apart), n.Name, n.Name)
}

// subnets are all that are taken.
func (n Network) subnets() []netip.Prefix {
	var out []netip.Prefix
	for _, one := range n.Nodes {
		out = append(out, one.Subnet)
	}
	for _, one := range n.Access {
		out = append(out, one.Subnet)
	}
	return out
}
