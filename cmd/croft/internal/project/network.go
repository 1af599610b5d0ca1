package project

import (
	"net/netip"
	"sort"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
)

// Network is a private network as the project file asks for it. It becomes
// one workload a node.
type Network struct {
	mesh.Network
	Duration time.Duration

	// keys are the private ones, in the nodes' order.
	keys   []*Secret
	places map[string]place
	line   int
}

// networkField is the path of a network in the file.
func networkField(name string) string { return join("networks", name) }

func readNetworks(n *yaml.Node, common defaults) ([]*Network, error) {
	list, err := entries(n, "networks")
	if err != nil {
		return nil, err
	}
	out := make([]*Network, len(list))
	for i, e := range list {
		if !nameOK(e.key) {
			return nil, at(e.line, networkField(e.key), "%q isn't a name; it %s", e.key, nameRule)
		}
		if out[i], err = readNetwork(e, common); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readNetwork(e entry, common defaults) (*Network, error) {
	field := networkField(e.key)
	list, err := entries(e.value, field)
	if err != nil {
		return nil, err
	}
	n := &Network{Duration: common.duration, line: e.line, places: map[string]place{"": {e.line, field}}}
	n.Name = e.key
	for _, one := range list {
		where := join(field, one.key)
		n.places[one.key] = place{one.value.Line, where}
		switch one.key {
		case "ip_range":
			n.IPRange, err = prefix(one.value, where)
		case "duration":
			n.Duration, err = duration(one.value, where)
		case "nodes":
			err = n.each(one, n.readNode)
		case "access":
			err = n.each(one, n.readAccess)
		default:
			err = unknown(one, field, []string{"ip_range", "duration", "nodes", "access"})
		}
		if err != nil {
			return nil, err
		}
	}
	return n, n.complete()
}

// complete checks that nothing is missing, and the network as a whole.
func (n *Network) complete() error {
	field := networkField(n.Name)
	if !n.IPRange.IsValid() {
		return at(n.line, join(field, "ip_range"), "is missing; it must be a private IPv4 range of /%d, such as 10.1.0.0/%d", mesh.RangeBits, mesh.RangeBits)
	}
	if n.Duration == 0 {
		return at(n.line, join(field, "duration"), "is missing, and the file has none for all; it must be as in 30d")
	}
	var wrong *mesh.Problem
	if err := n.Check(); errors.As(err, &wrong) {
		p := placeIn(n.places, wrong.Path)
		return at(p.line, p.field, "%s", wrong.Text)
	}
	return nil
}

// each reads the members of each item of a list.
func (n *Network) each(list entry, read func(item *yaml.Node, members map[string]*yaml.Node, path string) error) error {
	found, err := items(list.value, n.places[list.key].field)
	if err != nil {
		return err
	}
	for i, item := range found {
		path := list.key + "[" + strconv.Itoa(i) + "]"
		field := networkField(n.Name) + "." + path
		n.places[path] = place{item.Line, field}
		members, err := entries(item, field)
		if err != nil {
			return err
		}
		byKey := map[string]*yaml.Node{}
		for _, e := range members {
			n.places[join(path, e.key)] = place{e.value.Line, join(field, e.key)}
			byKey[e.key] = e.value
		}
		if err := n.only(members, field, list.key); err != nil {
			return err
		}
		if err := read(item, byKey, path); err != nil {
			return err
		}
	}
	return nil
}

// only refuses keys that an item of that list hasn't.
func (n *Network) only(members []entry, field, list string) error {
	allowed := map[string][]string{
		"nodes":  {"node", "subnet", "listen_port", "endpoint", "private_key"},
		"access": {"name", "subnet", "public_key", "via"},
	}[list]
	for _, e := range members {
		known := false
		for _, a := range allowed {
			known = known || a == e.key
		}
		if !known {
			return unknown(e, field, allowed)
		}
	}
	return nil
}

// needed are the members that an item must have.
func (n *Network) needed(item *yaml.Node, members map[string]*yaml.Node, path string, names ...string) error {
	sort.Strings(names)
	for _, name := range names {
		if members[name] == nil {
			return at(item.Line, join(n.places[path].field, name), "is missing")
		}
	}
	return nil
}

func (n *Network) readNode(item *yaml.Node, members map[string]*yaml.Node, path string) (err error) {
	if err := n.needed(item, members, path, "node", "subnet", "listen_port", "private_key"); err != nil {
		return err
	}
	field := func(name string) string { return n.places[join(path, name)].field }
	var one mesh.Node
	if one.ID, err = nodeID(members["node"], field("node")); err != nil {
		return err
	}
	if one.Subnet, err = prefix(members["subnet"], field("subnet")); err != nil {
		return err
	}
	if one.Port, err = port(members["listen_port"], field("listen_port")); err != nil {
		return err
	}
	if e := members["endpoint"]; e != nil {
		if one.Endpoint, err = text(e, field("endpoint")); err != nil {
			return err
		}
		if one.Endpoint == "" {
			return at(e.Line, field("endpoint"), "is empty; leave it out for a node that nobody can call")
		}
	}
	key, err := readSecret(members["private_key"], field("private_key"))
	if err != nil {
		return err
	}
	key.Node, key.Path = one.ID, "net_resources["+strconv.Itoa(len(n.Nodes))+"].wg_private_key"
	n.Nodes, n.keys = append(n.Nodes, one), append(n.keys, key)
	return nil
}

func (n *Network) readAccess(item *yaml.Node, members map[string]*yaml.Node, path string) (err error) {
	if err := n.needed(item, members, path, "name", "subnet", "public_key", "via"); err != nil {
		return err
	}
	field := func(name string) string { return n.places[join(path, name)].field }
	var one mesh.Access
	if one.Name, err = name(members["name"], field("name")); err != nil {
		return err
	}
	if one.Subnet, err = prefix(members["subnet"], field("subnet")); err != nil {
		return err
	}
	if one.PublicKey, err = text(members["public_key"], field("public_key")); err != nil {
		return err
	}
	if one.Via, err = nodeID(members["via"], field("via")); err != nil {
		return err
	}
	n.Access = append(n.Access, one)
	return nil
}

func prefix(n *yaml.Node, field string) (netip.Prefix, error) {
	value, err := text(n, field)
	if err != nil {
		return netip.Prefix{}, err
	}
	p, err := netip.ParsePrefix(value)
	if err != nil || p != p.Masked() {
		return netip.Prefix{}, at(n.Line, field, "is %s, must be an address range such as 10.1.1.0/24, with nothing after the mask", described(n))
	}
	return p, nil
}

func port(n *yaml.Node, field string) (uint16, error) {
	var value uint16
	if n.Kind != yaml.ScalarNode || n.Tag != tagInt || n.Decode(&value) != nil {
		return 0, at(n.Line, field, "is %s, must be a port from %d to 65535", described(n), mesh.LeastPort)
	}
	return value, nil
}
