package edit_test

import (
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/edit"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// bench is a project file that the commands have been at.
type bench struct {
	content []byte
	file    *project.File
	nodes   []string
	// keys are the private ones by the name of their file.
	keys map[string]string
	// accesses is how many have been added.
	accesses int
}

func newBench(t *rapid.T) *bench {
	b := &bench{content: []byte("# Mine.\n" + string(edit.NewFile("p", "1d")) + "\n# End.\n"), keys: map[string]string{}}
	for i := range 5 {
		key, err := sign.FromSeed([]byte(strings.Repeat(string(rune('a'+i)), sign.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		b.nodes = append(b.nodes, key.ID())
	}
	b.take(t, b.content, nil)
	return b
}

// take takes over what an edit has made.
func (b *bench) take(t *rapid.T, content []byte, err error) {
	if err == nil {
		b.file, err = project.Parse("croft.yaml", content)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
	b.content = content
}

// network is one of the file's, nil while there is none.
func (b *bench) network(t *rapid.T) *project.Network {
	if len(b.file.Networks) == 0 {
		return nil
	}
	return b.file.Networks[rapid.IntRange(0, len(b.file.Networks)-1).Draw(t, "network")]
}

func (b *bench) create(t *rapid.T) {
	if len(b.file.Networks) > 3 {
		return
	}
	p, err := mesh.FreeRange(b.file.Ranges())
	if err != nil {
		t.Fatal(err)
	}
	name := rapid.StringMatching(`[a-z][a-z0-9-]{0,9}`).Filter(func(s string) bool { return b.file.FindNetwork(s) == nil }).Draw(t, "name")
	content, err := edit.AddNetwork(b.content, name, p)
	b.take(t, content, err)
}

func (b *bench) addNode(t *rapid.T) {
	n := b.network(t)
	if n == nil {
		return
	}
	id := rapid.SampledFrom(b.nodes).Draw(t, "node")
	if n.Find(id) != nil {
		return
	}
	taken := map[uint16]bool{}
	for port := range b.file.Ports(id) {
		taken[port] = true
	}
	port, err := mesh.FreePort(taken, func(int) int { return rapid.IntRange(0, 3).Draw(t, "port") })
	if err != nil {
		t.Fatal(err)
	}
	one := mesh.Node{ID: id, Port: port}
	if host := rapid.SampledFrom([]string{"", "", "185.69.166.10", "2a02:1802:5e::10", "node.example.org"}).Draw(t, "host"); host != "" {
		if one.Endpoint, err = mesh.ParseEndpoint(host, port); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range n.Nodes {
		if one.Endpoint != "" && other.Endpoint == one.Endpoint {
			return
		}
	}
	if one.Subnet, err = n.FreeSubnet(nil); err != nil {
		t.Fatal(err)
	}
	key, err := mesh.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("keys/%s-%s.key", n.Name, id[:8])
	b.keys["file:"+name] = key
	content, err := edit.AddNode(b.content, n.Name, one, name)
	b.take(t, content, err)
}

func (b *bench) addAccess(t *rapid.T) {
	n := b.network(t)
	if n == nil || n.Relay() == nil || len(n.Access) > 5 {
		return
	}
	subnet, err := n.FreeSubnet(nil)
	if err != nil {
		t.Fatal(err)
	}
	private, err := mesh.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public, err := mesh.PublicKey(private)
	if err != nil {
		t.Fatal(err)
	}
	b.accesses++
	name := fmt.Sprintf("a%d", b.accesses)
	content, err := edit.AddAccess(b.content, n.Name, mesh.Access{Name: name, Subnet: subnet, PublicKey: public, Via: n.Relay().ID})
	b.take(t, content, err)
}

func (b *bench) removeNode(t *rapid.T) {
	n := b.network(t)
	if n == nil || len(n.Nodes) == 0 {
		return
	}
	id := n.Nodes[rapid.IntRange(0, len(n.Nodes)-1).Draw(t, "node")].ID
	for _, a := range n.Access {
		if a.Via == id {
			return
		}
	}
	content, err := edit.RemoveNode(b.content, n.Name, id)
	b.take(t, content, err)
}

func (b *bench) removeAccess(t *rapid.T) {
	n := b.network(t)
	if n == nil || len(n.Access) == 0 {
		return
	}
	content, err := edit.RemoveAccess(b.content, n.Name, n.Access[rapid.IntRange(0, len(n.Access)-1).Draw(t, "access")].Name)
	b.take(t, content, err)
}

func (b *bench) open(s *project.Secret) (string, error) { return b.keys[s.String()], nil }

// valid checks the documents of all nodes, as they would be signed.
func (b *bench) valid(t *rapid.T) {
	if err := b.file.CheckKeys(b.open); err != nil {
		t.Fatalf("%v in\n%s", err, b.content)
	}
	for _, w := range b.file.Workloads {
		data, err := w.Data(project.Targets{}, b.open, func(*project.Secret) (string, error) { return strings.Repeat("00", 48), nil })
		if err != nil {
			t.Fatal(err)
		}
		err = workload.Validate(&workload.Reservation{
			NodeID: w.Node, User: b.nodes[0], Type: w.Type, Data: data, Created: time.Unix(0, 0), Duration: w.Duration, Version: workload.V2, Nonce: make([]byte, workload.NonceSize),
		})
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.content)
		}
	}
}

// apart checks that ranges lie apart, and ports on each node.
func (b *bench) apart(t *rapid.T) {
	ranges, ports := []netip.Prefix{}, map[string]bool{}
	for _, n := range b.file.Networks {
		for _, other := range ranges {
			if other.Overlaps(n.IPRange) {
				t.Fatalf("%s is there twice in\n%s", n.IPRange, b.content)
			}
		}
		ranges = append(ranges, n.IPRange)
		for _, one := range n.Nodes {
			at := fmt.Sprint(one.ID, one.Port)
			if ports[at] {
				t.Fatalf("port %d is there twice on %s in\n%s", one.Port, one.ID, b.content)
			}
			ports[at] = true
		}
	}
}

// TestNetworkCommandsInAnyOrder: whatever is added and removed in
// which order, each node's document is one that it accepts.
func TestNetworkCommandsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		commands := map[string]func(*rapid.T){
			"create": b.create, "add-node": b.addNode, "add-access": b.addAccess, "remove-node": b.removeNode, "remove-access": b.removeAccess,
		}
		names := []string{"create", "create", "add-node", "add-node", "add-node", "add-access", "add-access", "remove-node", "remove-access"}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 10, 40).Draw(t, "commands") {
			commands[name](t)
			b.apart(t)
			if text := string(b.content); !strings.HasPrefix(text, "# Mine.\nproject: p\nduration: 1d\nnetworks:") || !strings.HasSuffix(text, "\n\n# End.\n") {
				t.Fatalf("more than networks has changed:\n%s", text)
			}
		}
		b.valid(t)
	})
}

// TestMain has property tests take 40 rounds instead of rapid's 100, of 25 commands on the average, which
// are a thousand commands; the flag says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	m.Run()
}
