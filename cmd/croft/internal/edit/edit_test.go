package edit_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/edit"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
)

// step is one change of a file.
type step func([]byte) ([]byte, error)

func network(name, ipRange string) step {
	return func(c []byte) ([]byte, error) { return edit.AddNetwork(c, name, netip.MustParsePrefix(ipRange)) }
}

func node(network, id, endpoint string) step {
	n := mesh.Node{ID: id, Subnet: netip.MustParsePrefix("10.1.1.0/24"), Port: 3001, Endpoint: endpoint}
	return func(c []byte) ([]byte, error) { return edit.AddNode(c, network, n, "keys/"+id+".key") }
}

func access(network, name string) step {
	a := mesh.Access{Name: name, Subnet: netip.MustParsePrefix("10.1.3.0/24"), PublicKey: "KEY=", Via: "N1"}
	return func(c []byte) ([]byte, error) { return edit.AddAccess(c, network, a) }
}

func gone(network, id string) step {
	return func(c []byte) ([]byte, error) { return edit.RemoveNode(c, network, id) }
}

func lockedOut(network, name string) step {
	return func(c []byte) ([]byte, error) { return edit.RemoveAccess(c, network, name) }
}

func removed(network string) step {
	return func(c []byte) ([]byte, error) { return edit.RemoveNetwork(c, network) }
}

// TestEdits: what a file becomes, byte for byte.
func TestEdits(t *testing.T) {
	const full = `# Mine.
project:   blog   # odd, and it stays

networks:
    # The first.
    net1:
        ip_range:   10.1.0.0/16   # wide

        # Where they run.
        nodes:
            # Attic.
            - node: N1
              subnet: 10.1.1.0/24
              listen_port: 3001
              endpoint: "192.0.2.7:3001"
              private_key: {secret: file:keys/N1.key} # secret

            - {node: N2, subnet: 10.1.2.0/24, listen_port: 3002, private_key: {secret: env:KEY}}

# What runs.
workloads:
  data: { volume:   {size: 1,   type: SSD} }


  other:   # last
    volume: {size: 1}
`
	for _, c := range []struct {
		when   string
		before string
		then   step
		after  string
	}{
		{"the file has no networks", "# Mine.\nproject: p # x\n\n\nworkloads: {}\n", network("net1", "10.1.0.0/16"),
			"# Mine.\nproject: p # x\n\n\nworkloads: {}\nnetworks:\n  net1:\n    ip_range: 10.1.0.0/16\n    nodes: []\n"},
		{"the last line has no end", "project: p", network("net1", "10.1.0.0/16"),
			"project: p\nnetworks:\n  net1:\n    ip_range: 10.1.0.0/16\n    nodes: []\n"},
		{"networks are in braces", "networks: {}\nproject: p\n", network("net1", "10.1.0.0/16"),
			"networks:\n  net1:\n    ip_range: 10.1.0.0/16\n    nodes: []\nproject: p\n"},
		{"the last line of networks has no end", "project: p\nnetworks:\n  net1:\n    ip_range:  10.1.0.0/16", network("net2", "10.2.0.0/16"),
			"project: p\nnetworks:\n  net1:\n    ip_range:  10.1.0.0/16\n  net2:\n    ip_range: 10.2.0.0/16\n    nodes: []\n"},
		{"the first node", "project: p\nnetworks:\n  net1:\n    ip_range: 10.1.0.0/16\n    nodes: []\n", node("net1", "N1", "[2001:db8::7]:3001"),
			"project: p\nnetworks:\n  net1:\n    ip_range: 10.1.0.0/16\n    nodes:\n      - node: N1\n        subnet: 10.1.1.0/24\n        listen_port: 3001\n" +
				"        endpoint: \"[2001:db8::7]:3001\"\n        private_key: {secret: 'file:keys/N1.key'}\n"},
		{"another node", full, node("net1", "N3", ""),
			strings.Replace(full, "{secret: env:KEY}}\n", "{secret: env:KEY}}\n            - node: N3\n              subnet: 10.1.1.0/24\n              listen_port: 3001\n              private_key: {secret: 'file:keys/N3.key'}\n", 1)},
		{"another network", full, network("net2", "10.2.0.0/16"),
			strings.Replace(full, "{secret: env:KEY}}\n", "{secret: env:KEY}}\n    net2:\n        ip_range: 10.2.0.0/16\n        nodes: []\n", 1)},
		{"the first access", full, access("net1", "laptop"),
			strings.Replace(full, "{secret: env:KEY}}\n", "{secret: env:KEY}}\n        access:\n            - name: laptop\n              subnet: 10.1.3.0/24\n              public_key: KEY=\n              via: N1\n", 1)},
		{"a node goes", full, gone("net1", "N2"), strings.Replace(full, "\n            - {node: N2, subnet: 10.1.2.0/24, listen_port: 3002, private_key: {secret: env:KEY}}\n", "", 1)},
		{"a network goes", full, removed("net1"), full[:strings.Index(full, "networks:")] + "networks: {}\n" + full[strings.Index(full, "\n# What runs."):]},
	} {
		t.Run(c.when, func(t *testing.T) {
			out, err := c.then([]byte(c.before))
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != c.after {
				t.Errorf("became\n%s\nwant\n%s", out, c.after)
			}
		})
	}
}

// TestAddThenRemoveRestoresTheFile: there and back is the same text.
func TestAddThenRemoveRestoresTheFile(t *testing.T) {
	const text = "project: p\n\nnetworks:\n  # One.\n  net1:\n    ip_range: 10.1.0.0/16\n\n    # Those.\n    nodes:\n      - node: N1 # here\n        subnet: 10.1.9.0/24\n    access:\n      - name: a\n\n# End.\n"
	for what, steps := range map[string][]step{
		"a network": {network("net2", "10.2.0.0/16"), removed("net2")},
		"a node":    {node("net1", "N2", "192.0.2.1:1"), gone("net1", "N2")},
		"an access": {access("net1", "b"), lockedOut("net1", "b")},
	} {
		out := []byte(text)
		for _, s := range steps {
			var err error
			if out, err = s(out); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if string(out) != text {
			t.Errorf("%s: left\n%s", what, out)
		}
	}
}

func TestRefusedEdits(t *testing.T) {
	const text = "project: p\nnetworks:\n  net1:\n    nodes: []\n"
	for _, c := range []struct {
		when, before string
		then         step
		says         string
	}{
		{"the file is in braces", "{project: p, workloads: {}}", network("n", "10.1.0.0/16"), "a key a line"},
		{"the file is empty", "", network("n", "10.1.0.0/16"), "a key a line"},
		{"the file is no YAML", "project: [", network("n", "10.1.0.0/16"), "cannot change networks"},
		{"there is no such network", text, node("net2", "N1", ""), `network "net2": there is none`},
		{"there is no such network to remove", text, removed("net2"), `network "net2": there is none`},
		{"there is no such node", text, gone("net1", "N1"), "N1 isn't in its nodes"},
		{"nobody has access", text, lockedOut("net1", "a"), "it has no access"},
		{"a text goes on at the end", "project: p\nnote: |+\n  text\n\n", network("n", "10.1.0.0/16"), "more of the file would change"},
	} {
		if out, err := c.then([]byte(c.before)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v (%s), want an error about %q", c.when, err, out, c.says)
		}
	}
}
