package edit

import (
	"net/netip"
	"strconv"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
)

// NewFile is a project file without anything in it.
func NewFile(project, duration string) []byte {
	return []byte("project: " + project + "\nduration: " + duration + "\nnetworks: {}\n")
}

// AddNetwork adds a network without nodes.
func AddNetwork(content []byte, name string, ipRange netip.Prefix) ([]byte, error) {
	return change(content, func(networks *yaml.Node) error {
		add(networks, plain(name), mapping("ip_range", plain(ipRange.String()), "nodes", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}))
		return nil
	})
}

// AddNode adds a node, whose private key is in the file named key.
func AddNode(content []byte, network string, n mesh.Node, key string) ([]byte, error) {
	secret := mapping("secret", plain("file:"+key))
	secret.Style = yaml.FlowStyle
	item := mapping("node", plain(n.ID), "subnet", plain(n.Subnet.String()),
		"listen_port", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(int(n.Port))})
	if !n.Hidden() {
		add(item, plain("endpoint"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: n.Endpoint})
	}
	add(item, plain("private_key"), secret)
	return addItem(content, network, "nodes", item)
}

// AddAccess adds an access.
func AddAccess(content []byte, network string, a mesh.Access) ([]byte, error) {
	return addItem(content, network, "access",
		mapping("name", plain(a.Name), "subnet", plain(a.Subnet.String()), "public_key", plain(a.PublicKey), "via", plain(a.Via)))
}

// RemoveNode removes a node.
func RemoveNode(content []byte, network, id string) ([]byte, error) {
	return removeItem(content, network, "nodes", "node", id)
}

// RemoveAccess removes an access, and the list with the last one.
func RemoveAccess(content []byte, network, name string) ([]byte, error) {
	return removeItem(content, network, "access", "name", name)
}

// RemoveNetwork removes a network with all its nodes.
func RemoveNetwork(content []byte, network string) ([]byte, error) {
	return change(content, func(networks *yaml.Node) error {
		if !drop(networks, network) {
			return errors.Errorf("cannot remove network %q: there is none in the file", network)
		}
		return nil
	})
}

// drop removes a key of a mapping; false when it has none.
func drop(mapping *yaml.Node, key string) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return true
		}
	}
	return false
}

func addItem(content []byte, network, list string, item *yaml.Node) ([]byte, error) {
	return change(content, func(networks *yaml.Node) error {
		n := member(networks, network)
		if n == nil {
			return errors.Errorf("cannot change network %q: there is none in the file", network)
		}
		items := member(n, list)
		if items == nil {
			items = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
			add(n, plain(list), items)
		}
		if len(items.Content) == 0 {
			items.Style = 0
		}
		items.Content = append(items.Content, item)
		return nil
	})
}

func removeItem(content []byte, network, list, key, value string) ([]byte, error) {
	return change(content, func(networks *yaml.Node) error {
		items := member(member(networks, network), list)
		if items == nil {
			return errors.Errorf("cannot change network %q: it has no %s in the file", network, list)
		}
		for i, item := range items.Content {
			if found := member(item, key); found != nil && found.Value == value {
				items.Content = append(items.Content[:i:i], items.Content[i+1:]...)
				if len(items.Content) == 0 && list == "access" {
					drop(member(networks, network), list)
				}
				return nil
			}
		}
		return errors.Errorf("cannot change network %q: %s isn't in its %s", network, value, list)
	})
}

// member is the value of a mapping's key, nil when there is none.
func member(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// add adds a key to a mapping, which has a key a line from then on.
func add(mapping, key, value *yaml.Node) {
	if len(mapping.Content) == 0 {
		mapping.Style = 0
	}
	mapping.Content = append(mapping.Content, key, value)
}

func plain(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// mapping makes one of keys and their values.
func mapping(pairs ...any) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(pairs); i += 2 {
		add(out, plain(pairs[i].(string)), pairs[i+1].(*yaml.Node))
	}
	return out
}
