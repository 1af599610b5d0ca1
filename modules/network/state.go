package network

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/croft-edge/croft/pkg/node"
)

// state is what is kept of a network resource for as long as the machine is
// up. The private key is not in it: the engine brings it when it is needed.
type state struct {
	Spec node.NetworkSpec `json:"spec"`
	// Index gives the names and addresses of its uplink.
	Index int `json:"index"`
	// Endpoints are what the peers' endpoints have resolved to, by public key.
	Endpoints endpointSet `json:"endpoints,omitempty"`
	// Members are those who have a place in it, by their ID.
	Members map[string]*member `json:"members"`
	// Rules are those of its namespace.
	Rules applied `json:"rules"`
}

// member is a place in a network.
type member struct {
	ID string `json:"id"`
	// Hash says whose it is, see node.Claim; those of an older croft have none.
	Hash string       `json:"hash,omitempty"`
	Name string       `json:"name"`
	IPs  []netip.Addr `json:"ips"`
	// Index gives the name of its port.
	Index int `json:"index"`
	// Tap is whether it is a VM's: then it has no namespace.
	Tap bool `json:"tap"`
	// Namespace is the file that keeps the namespace that it uses, empty when
	// that is of the process PID; Inode identifies it.
	Namespace string `json:"namespace,omitempty"`
	PID       uint64 `json:"pid"`
	Inode     uint64 `json:"inode"`
	// Public is its routable address, PublicIndex gives the name of its link.
	Public      netip.Addr `json:"public"`
	PublicIndex int        `json:"public_index"`
}

// stateFile is in a network resource's folder, the file that keeps its
// namespace in the folder of all of these.
const (
	stateFile   = "state.json"
	netnsFolder = "netns"
)

func (m *Module) folder(id string) string    { return filepath.Join(m.cfg.Dir, id) }
func (m *Module) namespace(id string) string { return filepath.Join(m.cfg.Dir, netnsFolder, id) }

// save writes n's state. It is written before the effects that it names, so
// that nothing is ever on the node that isn't labelled.
func (m *Module) save(n *network) error {
	raw, err := json.Marshal(n.state)
	if err != nil {
		return node.WithKind(node.Internal, err)
	}
	if err := os.MkdirAll(m.folder(n.id()), 0o700); err != nil {
		return node.Errorf(node.Internal, "cannot make the folder of network %s: %w", n.id(), err)
	}
	if err := renameio.WriteFile(filepath.Join(m.folder(n.id()), stateFile), raw, 0o600); err != nil {
		return node.Errorf(node.Internal, "cannot write the state of network %s: %w", n.id(), err)
	}
	return nil
}

// load reads the states of all networks. A folder that can't be read is said
// and left alone: its reservation brings the network again.
func (m *Module) load() error {
	entries, err := os.ReadDir(m.cfg.Dir)
	if err != nil {
		return node.Errorf(node.Internal, "cannot read the networks' folder: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || len(e.Name()) != idLength {
			continue
		}
		n, err := m.loadOne(e.Name())
		if err != nil {
			m.cfg.Log.Error().Err(err).Str("network", e.Name()).Str("step", "load").Msg("a network's state can't be read: it is made anew")
			continue
		}
		m.networks[n.id()] = n
	}
	return nil
}

func (m *Module) loadOne(id string) (*network, error) {
	raw, err := os.ReadFile(filepath.Join(m.folder(id), stateFile))
	if err != nil {
		return nil, err
	}
	n := &network{}
	if err := json.Unmarshal(raw, &n.state); err != nil {
		return nil, err
	}
	if n.Members == nil {
		n.Members = map[string]*member{}
	}
	if n.plan, err = readStored(n.Spec); err != nil {
		return nil, err
	}
	if n.plan.spec.ID != id {
		return nil, node.Errorf(node.Invalid, "cannot read network %s: its state is of %s", id, n.plan.spec.ID)
	}
	return n, nil
}

// readStored reads a spec that was checked before and has lost its key.
func readStored(spec node.NetworkSpec) (plan, error) {
	p := plan{spec: spec}
	if err := p.readRanges(); err != nil {
		return p, err
	}
	return p, p.readPeers()
}
