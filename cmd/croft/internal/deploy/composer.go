package deploy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// composer makes signed reservations of the workloads of a project file.
type composer struct {
	key    sign.KeyPair
	source project.Source
	now    func() time.Time
	ledger *ledger
	// explorer is asked for volumes that aren't of the file.
	explorer interface {
		Get(ctx context.Context, id string) (explorer.Reservation, error)
	}
}

// user is the signer's ID.
func (c *composer) user() string { return c.key.ID() }

// targets are the reservations that w's data refers to. Those of the project
// are known by the documents that were signed here, whatever the explorer says.
func (c *composer) targets(ctx context.Context, w *project.Workload) (project.Targets, error) {
	out := project.Targets{Workloads: map[string]project.Target{}, Volumes: map[string]string{}, Networks: map[string]string{}}
	for _, name := range w.Uses() {
		used := c.ledger.Current[name]
		if used == nil {
			continue
		}
		hash, err := hashOf(used)
		if err != nil {
			return out, err
		}
		out.Workloads[name] = project.Target{ID: used.ID, Hash: hash}
	}
	volumes, networks := w.Outside()
	for _, id := range volumes {
		hash, err := c.volumeHash(ctx, w.Node, id)
		if err != nil {
			return out, errors.Wrapf(err, "cannot make the data of %q", w.Name)
		}
		out.Volumes[id] = hash
	}
	for _, name := range networks {
		hash, err := c.networkHash(w.Node, name)
		if err != nil {
			return out, err
		}
		out.Networks[name] = hash
	}
	return out, nil
}

// hashOf is the hash of an entry's signed document.
func hashOf(e *state.Entry) (string, error) {
	r, err := e.Reservation()
	if err != nil {
		return "", err
	}
	hash, err := r.Hash()
	return hash.Hex(), err
}

// volumeHash is the hash of a volume of the user that isn't a workload of the file. The
// explorer decides which one the ID means, as it does where data holds the ID alone. Empty
// when it shows none on that node: the node then reports the mistake.
func (c *composer) volumeHash(ctx context.Context, nodeID, id string) (string, error) {
	if e := c.ledger.find(func(e *state.Entry) bool { return e.ID == id && e.Type == workload.TypeVolume && e.Node == nodeID }); e != nil {
		return hashOf(e)
	}
	var shown explorer.Reservation
	err := again(ctx, func() (err error) {
		shown, err = c.explorer.Get(ctx, id)
		return err
	})
	if err != nil && node.KindOf(err).Final() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r := &shown.Reservation
	if r.User != c.user() || r.Type != workload.TypeVolume || r.NodeID != nodeID || workload.Verify(r) != nil {
		return "", nil
	}
	hash, err := r.Hash()
	return hash.Hex(), err
}

// networkHash is the hash of the project's network of that name on a node;
// empty when there is none.
func (c *composer) networkHash(nodeID, name string) (string, error) {
	e := c.ledger.find(func(e *state.Entry) bool {
		return e.Type == workload.TypeNetwork && e.Network == name && e.Node == nodeID
	})
	if e == nil {
		return "", nil
	}
	return hashOf(e)
}

// sign makes the entry of a new reservation for w.
func (c *composer) sign(ctx context.Context, w *project.Workload) (*state.Entry, error) {
	known, err := c.targets(ctx, w)
	if err != nil {
		return nil, err
	}
	ids, hashes := map[string]string{}, map[string]string{}
	for name, used := range known.Workloads {
		ids[name], hashes[name] = used.ID, used.Hash
	}
	data, err := w.Data(known, c.open, func(s *project.Secret) (string, error) { return c.seal(w, s) })
	if err != nil {
		return nil, err
	}
	if data, err = c.named(w, data); err != nil {
		return nil, err
	}
	digest, err := c.digest(w)
	if err != nil {
		return nil, err
	}
	r := workload.Reservation{NodeID: w.Node, Type: w.Type, Data: data, Created: c.now(), Duration: w.Duration}
	if err := r.Sign(c.key.Private()); err != nil {
		return nil, err
	}
	if err := w.Explain(workload.Validate(&r)); err != nil {
		return nil, err
	}
	document, err := workload.Encode(&r)
	if err != nil {
		return nil, err
	}
	return &state.Entry{
		Name: w.Name, Type: w.Type, Node: w.Node, Network: w.Network,
		Digest: digest, Duration: w.Duration, Uses: ids, Hashes: hashes, Document: string(document),
	}, nil
}

func (c *composer) digest(w *project.Workload) (string, error) {
	return w.Digest(DigestKey(c.key), c.open)
}

func (c *composer) open(s *project.Secret) (string, error) { return s.Open(c.source) }

// seal makes a secret's box, bound to user, type and field.
func (c *composer) seal(w *project.Workload, s *project.Secret) (string, error) {
	plain, err := s.Open(c.source)
	if err != nil {
		return "", err
	}
	box, err := workload.SealSecret(s.Node, c.user(), w.Type, s.Path, []byte(plain))
	return box, errors.Wrapf(err, "cannot make the data of %q", w.Name)
}

// named adds a container's name to its data, under which another may replace it: the name
// of the current one of w on the same node, else a random one, so that two projects never
// have the same.
func (c *composer) named(w *project.Workload, data json.RawMessage) (json.RawMessage, error) {
	if w.Type != workload.TypeContainer {
		return data, nil
	}
	name := ""
	if e := c.ledger.Current[w.Name]; e != nil && e.Node == w.Node {
		name = containerName(e)
	}
	if name == "" {
		random := make([]byte, 8)
		if _, err := rand.Read(random); err != nil {
			return nil, errors.Wrapf(err, "cannot make the name of %q", w.Name)
		}
		name = prefix(w.Name) + "-" + hex.EncodeToString(random)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, errors.Wrapf(err, "cannot make the data of %q", w.Name)
	}
	members["name"] = json.RawMessage(`"` + name + `"`)
	out, err := json.Marshal(members)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot make the data of %q", w.Name)
	}
	return workload.Canonical(out)
}

// mostPrefix is how much of a workload's name is in its container's.
const mostPrefix = 40

// prefix is the part of a workload's name that its container's name begins with: for people only.
func prefix(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, name)
	plain = strings.Trim(plain[:min(len(plain), mostPrefix)], "-")
	if plain == "" {
		return string(workload.TypeContainer)
	}
	return plain
}
