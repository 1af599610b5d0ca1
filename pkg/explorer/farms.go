package explorer

import (
	"context"
	"net/http"
	"strconv"
)

// FarmClient creates farms, reads them, and lets nodes join them.
type FarmClient struct{ connection *connection }

// CreateFarm makes a farm that the signer, a user, owns. Exist when the name is taken.
func (c FarmClient) CreateFarm(ctx context.Context, name string) (Farm, error) {
	k := call{what: "create farm " + name, method: http.MethodPost, path: "/farms", signed: true}
	a, err := c.connection.write(ctx, k, Farm{Name: name})
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

// Farms returns one page of the farms, and the next page's After ("" at the end).
func (c FarmClient) Farms(ctx context.Context, p ListPage) ([]Farm, string, error) {
	var out []Farm
	k := call{what: "list farms", path: "/farms", query: p.query()}
	h, err := c.connection.get(ctx, k, &out)
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
func (c FarmClient) AllFarms(ctx context.Context) ([]Farm, error) {
	return collect(func(p ListPage) ([]Farm, string, error) { return c.Farms(ctx, p) })
}

// Farm returns one farm. NotExist when there is none of that number.
func (c FarmClient) Farm(ctx context.Context, id uint64) (Farm, error) {
	var out Farm
	k := call{what: "get farm", path: "/farms/" + strconv.FormatUint(id, 10)}
	if _, err := c.connection.get(ctx, k, &out); err != nil {
		return Farm{}, err
	}
	if out.ID != id {
		return Farm{}, garbage(k.what, "it is about another farm")
	}
	return out, nil
}

// Approve lets a registered node join the farm. The owner signs the grant (SignGrant); anybody may
// send it.
func (c FarmClient) Approve(ctx context.Context, farm uint64, nodeID string, g Grant) error {
	path := "/farms/" + strconv.FormatUint(farm, 10) + nodePath(nodeID, "")
	_, err := c.connection.write(ctx, call{what: "let node " + nodeID + " join", method: http.MethodPut, path: path}, g)
	return err
}
