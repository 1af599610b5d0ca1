package nodetest

import (
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// WireGuardKey is a new key pair, in the encoding of WireGuard's tools.
func (r *Reservations) WireGuardKey() (private, public string) {
	r.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		r.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(key.Bytes()), base64.StdEncoding.EncodeToString(key.PublicKey().Bytes())
}

// Part is one node's, or one person's, part of a network.
type Part struct {
	// Node is empty for an external user.
	Node *Node
	// IPRange is the whole network's, taken from its first part; empty is 10.1.0.0/16.
	IPRange  string
	Subnet   string
	Port     uint16
	Endpoint string
	Private  string
	Public   string
	// Behind are subnets that are reached through this part.
	Behind []string
	// Apart are the parts to which this one has no tunnel.
	Apart []*Part
}

// Part makes a part with a new key pair.
func (r *Reservations) Part(n *Node, subnet string, port uint16, endpoint string) *Part {
	r.Helper()
	p := &Part{Node: n, Subnet: subnet, Port: port, Endpoint: endpoint}
	p.Private, p.Public = r.WireGuardKey()
	return p
}

// Networks makes a network's reservations, signed by user: one a node, all with the same data.
func (r *Reservations) Networks(user sign.KeyPair, name string, parts ...*Part) []*workload.Reservation {
	r.Helper()
	data := workload.Network{Name: name, IPRange: cmp.Or(parts[0].IPRange, "10.1.0.0/16")}
	for _, p := range parts {
		if p.Node == nil {
			continue
		}
		path := fmt.Sprintf("net_resources[%d].wg_private_key", len(data.Resources))
		sealed, err := workload.SealSecret(p.Node.ID, user.ID(), workload.TypeNetwork, path, []byte(p.Private))
		if err != nil {
			r.Fatal(err)
		}
		data.Resources = append(data.Resources, workload.NetworkResource{
			NodeID: p.Node.ID, Subnet: p.Subnet, PrivateKey: sealed, PublicKey: p.Public, ListenPort: p.Port, Peers: p.peers(parts),
		})
	}
	raw, err := json.Marshal(data)
	if err != nil {
		r.Fatal(err)
	}
	var out []*workload.Reservation
	for _, p := range parts {
		if p.Node == nil {
			continue
		}
		signed := &workload.Reservation{NodeID: p.Node.ID, Type: workload.TypeNetwork, Created: time.Now(), Duration: time.Hour, Data: raw}
		if err := signed.Sign(user.Private()); err != nil {
			r.Fatal(err)
		}
		out = append(out, signed)
	}
	return out
}

// peers are the WireGuard peers of p: all other parts but those in Apart.
func (p *Part) peers(parts []*Part) []workload.WireGuardPeer {
	out := []workload.WireGuardPeer{}
	for _, other := range parts {
		skip := other == p
		for _, s := range p.Apart {
			skip = skip || s == other
		}
		if skip {
			continue
		}
		peer := workload.WireGuardPeer{Subnet: other.Subnet, PublicKey: other.Public, Endpoint: other.Endpoint, AllowedIPs: []string{other.Subnet}}
		for _, b := range other.Behind {
			if b != p.Subnet {
				peer.AllowedIPs = append(peer.AllowedIPs, b)
			}
		}
		out = append(out, peer)
	}
	return out
}

// NetworkID is the modules' ID of user's network of that name.
func NetworkID(user sign.KeyPair, name string) string {
	key := workload.NetworkKey(user.ID(), name)
	return hex.EncodeToString(key[:])
}

// Modules are stubs of a node's modules on its bus, valid until the test ends.
func (n *Node) Modules() (*stubs.NetworksStub, *stubs.TapsStub) {
	n.w.Helper()
	ctx, cancel := context.WithTimeout(n.w.Context(), 20*time.Second)
	defer cancel()
	url := n.BusURL()
	for i, arg := range n.Args {
		if arg == "--bus" {
			url = n.Args[i+1]
		}
	}
	client, err := bus.Dial(ctx, url, bus.Options{})
	if err != nil {
		n.w.Fatal(err)
	}
	n.w.Cleanup(func() { _ = client.Close() })
	return stubs.NewNetworksStub(client), stubs.NewTapsStub(client)
}

// Member is a process with a network namespace of its own, which stands in for a container on a
// network.
type Member struct {
	node.Member
	PID uint64
	w   *World
}

// StartMember starts a process with an empty network namespace of its own.
func (w *World) StartMember() *Member {
	w.Helper()
	cmd := exec.Command("sleep", "3600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &Member{PID: uint64(cmd.Process.Pid), w: w}
}

// Join starts a member and joins it to a network, as the container module would.
func (n *Node) Join(spec node.MemberSpec) *Member {
	n.w.Helper()
	m := n.w.StartMember()
	spec.PID = m.PID
	networks, _ := n.Modules()
	ctx, cancel := context.WithTimeout(n.w.Context(), 20*time.Second)
	defer cancel()
	joined, err := networks.Join(ctx, spec)
	if err != nil {
		n.w.Fatal(err)
	}
	m.Member = joined
	return m
}

// Path is the member's network namespace.
func (m *Member) Path() string { return netns.OfProcess(m.PID) }

// Dial connects from inside.
func (m *Member) Dial(network, address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return m.w.DialFrom(m.Path())(ctx, network, address)
}

// Echo listens inside, at any address and that port, and echoes.
func (m *Member) Echo(port uint16) { m.w.EchoIn(m.Path(), port) }

// EchoIn listens in a network namespace, at any address and that port, and echoes until the test ends.
func (t *Traffic) EchoIn(namespace string, port uint16) {
	t.Helper()
	var listener net.Listener
	err := netns.Do(namespace, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(netip.IPv6Unspecified(), port).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()
}

func echo(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// Ask sends text over an echo's connection and reads it back.
func Ask(conn net.Conn, text string, limit time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	got := make([]byte, len(text))
	for read := 0; read < len(got); {
		n, err := conn.Read(got[read:])
		if err != nil {
			return err
		}
		read += n
	}
	if string(got) != text {
		return fmt.Errorf("sent %q, got %q", text, got)
	}
	return nil
}

// Reaches returns why an echo at address doesn't answer the member; nil when it does.
func (m *Member) Reaches(address string, limit time.Duration) error {
	return m.w.ReachesFrom(m.Path(), address, limit)
}

// ReachesFrom is Reaches from any namespace.
func (t *Traffic) ReachesFrom(namespace, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := t.DialFrom(namespace)(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return Ask(conn, "hello", limit)
}

// Carrier is the process ID of the node's wg carrier, 0 when there is none.
func (n *Node) Carrier() int {
	raw, err := os.ReadFile(n.w.Path(n.name, "r", "wg", "pid"))
	if err != nil {
		return 0
	}
	pid := 0
	_, _ = fmt.Sscan(string(raw), &pid)
	return pid
}
