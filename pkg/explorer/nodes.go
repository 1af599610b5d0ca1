package explorer

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Info asks the explorer about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var out Info
	k := call{what: "ask the explorer for its state", path: "/info"}
	if _, err := c.get(ctx, k, &out); err != nil {
		return Info{}, err
	}
	if out.Epoch == "" || out.Time.IsZero() {
		return Info{}, garbage(k.what, "it has no epoch or no time")
	}
	return out, nil
}

// RegisterNode registers the node or updates what is known of it. The client's
// signer must be the node.
func (c *Client) RegisterNode(ctx context.Context, n Node) error {
	_, err := c.write(ctx, call{what: "register node " + n.NodeID, method: http.MethodPost, path: "/nodes", signed: true}, n)
	return err
}

// Heartbeat tells that the node lives.
func (c *Client) Heartbeat(ctx context.Context, nodeID string, h Heartbeat) error {
	_, err := c.write(ctx, call{what: "send heartbeat", method: http.MethodPost, path: nodePath(nodeID, "/uptime"), signed: true}, h)
	return err
}

// SetCapacity tells what the node has in total.
func (c *Client) SetCapacity(ctx context.Context, nodeID string, total Resources) error {
	body := struct {
		Capacity Resources `json:"capacity"`
	}{total}
	_, err := c.write(ctx, call{what: "send capacity", method: http.MethodPost, path: nodePath(nodeID, "/capacity"), signed: true}, body)
	return err
}

// SetInterfaces tells the node's network interfaces.
func (c *Client) SetInterfaces(ctx context.Context, nodeID string, ifaces []Iface) error {
	if ifaces == nil {
		ifaces = []Iface{}
	}
	_, err := c.write(ctx, call{what: "send interfaces", method: http.MethodPost, path: nodePath(nodeID, "/interfaces"), signed: true}, ifaces)
	return err
}

// SetPorts tells the WireGuard ports that the node has in use.
func (c *Client) SetPorts(ctx context.Context, nodeID string, ports []uint) error {
	if ports == nil {
		ports = []uint{}
	}
	_, err := c.write(ctx, call{what: "send ports", method: http.MethodPost, path: nodePath(nodeID, "/ports"), signed: true}, Ports{Ports: ports})
	return err
}

// SetPublicConfig sets a node's public network configuration. The client's
// signer must be the owner of the node's farm.
func (c *Client) SetPublicConfig(ctx context.Context, nodeID string, p PublicConfig) error {
	_, err := c.write(ctx, call{what: "configure node " + nodeID, method: http.MethodPost, path: nodePath(nodeID, "/configure_public"), signed: true}, p)
	return err
}

// NodeFilter selects nodes. The zero NodeFilter is all of them.
type NodeFilter struct {
	// Farm, when not 0, is the farm that they belong to.
	Farm uint64
	// Online selects those heard of lately.
	Online bool
}

// ListPage selects a page of a list. The zero ListPage is the first.
type ListPage struct {
	// After is where the last page ended; empty for the first.
	After string
	// Limit is how many to return; 0 leaves it to the explorer.
	Limit int
}

func (p ListPage) query() url.Values {
	q := url.Values{}
	if p.After != "" {
		q.Set("after", p.After)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

// Nodes returns one page of the nodes, and where the next begins ("" at the end).
func (c *Client) Nodes(ctx context.Context, f NodeFilter, p ListPage) ([]Node, string, error) {
	q := p.query()
	if f.Farm != 0 {
		q.Set("farm", strconv.FormatUint(f.Farm, 10))
	}
	if f.Online {
		q.Set("online", "true")
	}
	var out []Node
	k := call{what: "list nodes", path: "/nodes", query: q, limit: maxPage}
	h, err := c.get(ctx, k, &out)
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
func (c *Client) AllNodes(ctx context.Context, f NodeFilter) ([]Node, error) {
	return collect(func(p ListPage) ([]Node, string, error) { return c.Nodes(ctx, f, p) })
}

// Node returns one node. NotExist when it isn't registered.
func (c *Client) Node(ctx context.Context, id string) (Node, error) {
	var out Node
	k := call{what: "get node " + id, path: nodePath(id, "")}
	if _, err := c.get(ctx, k, &out); err != nil {
		return Node{}, err
	}
	if out.NodeID != id {
		return Node{}, garbage(k.what, "it is about another node")
	}
	return out, nil
}

// CreateFarm makes a farm of the signer, who must be a user. Exist when the
// name is taken.
func (c *Client) CreateFarm(ctx context.Context, name string) (Farm, error) {
	k := call{what: "create farm " + name, method: http.MethodPost, path: "/farms", signed: true}
	a, err := c.write(ctx, k, Farm{Name: name})
	if err != nil {
		return Farm{}, err
	}
	var out Farm
	if err := decode(k.what, a.body, &out); err != nil {
		return Farm{}, err
	}
	if out.ID == 0 || out.Name != name {
		return Farm{}, garbage(k.what, "it is about another farm")
	}
	return out, nil
}

// Farms returns one page of the farms, and where the next begins ("" at the end).
func (c *Client) Farms(ctx context.Context, p ListPage) ([]Farm, string, error) {
	var out []Farm
	k := call{what: "list farms", path: "/farms", query: p.query()}
	h, err := c.get(ctx, k, &out)
	if err != nil {
		return nil, "", err
	}
	for _, f := range out {
		if f.ID == 0 {
			return nil, "", garbage(k.what, "a farm has no number")
		}
	}
	return out, next(h), nil
}

// AllFarms returns all farms.
func (c *Client) AllFarms(ctx context.Context) ([]Farm, error) {
	return collect(func(p ListPage) ([]Farm, string, error) { return c.Farms(ctx, p) })
}

// Farm returns one farm. NotExist when there is none of that number.
func (c *Client) Farm(ctx context.Context, id uint64) (Farm, error) {
	var out Farm
	k := call{what: "get farm", path: "/farms/" + strconv.FormatUint(id, 10)}
	if _, err := c.get(ctx, k, &out); err != nil {
		return Farm{}, err
	}
	if out.ID != id {
		return Farm{}, garbage(k.what, "it is about another farm")
	}
	return out, nil
}

// Approve lets a registered node join the farm. The grant is the owner's
// (SignGrant); whoever has it may bring it.
func (c *Client) Approve(ctx context.Context, farm uint64, nodeID string, g Grant) error {
	path := "/farms/" + strconv.FormatUint(farm, 10) + nodePath(nodeID, "")
	_, err := c.write(ctx, call{what: "let node " + nodeID + " join", method: http.MethodPut, path: path}, g)
	return err
}

func nodePath(id, rest string) string { return "/nodes/" + url.PathEscape(id) + rest }

// HeaderNext says where a list's next page begins.
const HeaderNext = "Croft-Next"

func next(h http.Header) string { return strings.TrimSpace(h.Get(HeaderNext)) }

// maxPages bounds a list: an explorer that never comes to an end isn't one.
const maxPages = 10000

func collect[T any](page func(ListPage) ([]T, string, error)) ([]T, error) {
	var out []T
	p := ListPage{}
	for range maxPages {
		items, after, err := page(p)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
		if after == "" || after == p.After {
			return out, nil
		}
		p.After = after
	}
	return nil, node.Errorf(node.Transient, "cannot list: the explorer's list has no end")
}
