package explorer

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// NodeClient writes and reads an explorer's nodes. Methods that report on a node need that node as
// the client's signer.
type NodeClient struct{ connection *connection }

// RegisterNode registers the node or updates its registration. The client's signer must be the
// node.
func (c NodeClient) RegisterNode(ctx context.Context, n Node) error {
	_, err := c.connection.write(ctx, call{what: "register node " + n.NodeID, method: http.MethodPost, path: "/nodes", signed: true}, n)
	return err
}

// Heartbeat reports that the node is alive.
func (c NodeClient) Heartbeat(ctx context.Context, nodeID string, h Heartbeat) error {
	_, err := c.connection.write(ctx, call{what: "send heartbeat", method: http.MethodPost, path: nodePath(nodeID, "/uptime"), signed: true}, h)
	return err
}

// SetCapacity reports the node's total capacity.
func (c NodeClient) SetCapacity(ctx context.Context, nodeID string, total Resources) error {
	body := struct {
		Capacity Resources `json:"capacity"`
	}{total}
	_, err := c.connection.write(ctx, call{what: "send capacity", method: http.MethodPost, path: nodePath(nodeID, "/capacity"), signed: true}, body)
	return err
}

// SetInterfaces reports the node's network interfaces.
func (c NodeClient) SetInterfaces(ctx context.Context, nodeID string, ifaces []Iface) error {
	if ifaces == nil {
		ifaces = []Iface{}
	}
	_, err := c.connection.write(ctx, call{what: "send interfaces", method: http.MethodPost, path: nodePath(nodeID, "/interfaces"), signed: true}, ifaces)
	return err
}

// SetPorts reports the WireGuard ports that the node has in use.
func (c NodeClient) SetPorts(ctx context.Context, nodeID string, ports []uint) error {
	if ports == nil {
		ports = []uint{}
	}
	_, err := c.connection.write(ctx, call{what: "send ports", method: http.MethodPost, path: nodePath(nodeID, "/ports"), signed: true}, Ports{Ports: ports})
	return err
}

// SetPublicConfig sets a node's public network configuration. The client's
// signer must be the owner of the node's farm.
func (c NodeClient) SetPublicConfig(ctx context.Context, nodeID string, p PublicConfig) error {
	_, err := c.connection.write(ctx, call{what: "configure node " + nodeID, method: http.MethodPost, path: nodePath(nodeID, "/configure_public"), signed: true}, p)
	return err
}

// NodeFilter selects nodes. The zero NodeFilter is all of them.
type NodeFilter struct {
	// Farm, when not 0, is the farm that they belong to.
	Farm uint64
	// Online selects nodes heard of lately.
	Online bool
}

// Nodes returns one page of the nodes, and the next page's After ("" at the end).
func (c NodeClient) Nodes(ctx context.Context, f NodeFilter, p ListPage) ([]Node, string, error) {
	q := p.query()
	if f.Farm != 0 {
		q.Set("farm", strconv.FormatUint(f.Farm, 10))
	}
	if f.Online {
		q.Set("online", "true")
	}
	var out []Node
	k := call{what: "list nodes", path: "/nodes", query: q, limit: maxPage}
	h, err := c.connection.get(ctx, k, &out)
	if err != nil {
		return nil, "", err
	}
	for _, n := range out {
		if n.NodeID == "" {
			return nil, "", garbage(k.what, "a node has no ID")
		}
	}
	return out, next(h), nil
}

// AllNodes returns all nodes.
func (c NodeClient) AllNodes(ctx context.Context, f NodeFilter) ([]Node, error) {
	return collect(func(p ListPage) ([]Node, string, error) { return c.Nodes(ctx, f, p) })
}

// Node returns one node. NotExist when it isn't registered.
func (c NodeClient) Node(ctx context.Context, id string) (Node, error) {
	var out Node
	k := call{what: "get node " + id, path: nodePath(id, "")}
	if _, err := c.connection.get(ctx, k, &out); err != nil {
		return Node{}, err
	}
	if out.NodeID != id {
		return Node{}, garbage(k.what, "it is about another node")
	}
	return out, nil
}

func nodePath(id, rest string) string { return "/nodes/" + url.PathEscape(id) + rest }
