package project_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/pkg/workload"
)

// recorded is a network that the seed's tool made.
type recorded struct {
	DataText string `json:"data_text"`
	Secrets  struct {
		Keys []struct {
			Ciphertext string `json:"ciphertext_hex"`
			Plaintext  string `json:"plaintext"`
		} `json:"wg_private_keys"`
	} `json:"secrets"`
}

func record(t *testing.T, name string) (recorded, workload.Network) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "pkg", "workload", "testdata", "v1", name))
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	var n workload.Network
	if err := json.Unmarshal([]byte(r.DataText), &n); err != nil {
		t.Fatal(err)
	}
	return r, n
}

// seedNetwork is the file that says what the seed's tool was told.
const seedNetwork = `
project: p
duration: 30d
networks:
  net1:
    ip_range: 10.1.0.0/16
    nodes:
      - node: 5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ
        subnet: 10.1.1.0/24
        listen_port: 3001
        endpoint: "[2a02:1802:5e::10]:3001"
        private_key: {secret: "literal:YH8xDRZLbOCJAKTSc2iXhYTQ04hgxkmFC1//DnusOGs="}
      - node: CY4wS9KZWSwxtGyJyZsGWQhK2TY1AxQTvJr64H2zQktP
        subnet: 10.1.2.0/24
        listen_port: 7752
        endpoint: "[2a02:1802:5e::11]:7752"
        private_key: {secret: "literal:AGXjtOoiZD8Ino0Qk/XMYSg35iN3MLyo0qWnbx9FrEI="}
`

const seedAccess = `
    access:
      - name: laptop
        subnet: 10.1.3.0/24
        public_key: DCElF6XS3fIkuvZKQyxtWGdM8PRsO09cvPcohRwEL34=
        via: 5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ
`

func open(s *project.Secret) (string, error) { return s.Open(project.Source{}) }

// TestNetworksMatchTheSeed: the same subnets, ports and keys give the
// same data on each node, down to the order of peers and ranges.
func TestNetworksMatchTheSeed(t *testing.T) {
	for name, text := range map[string]string{
		"network.json": seedNetwork, "network_second_node.json": seedNetwork, "network_access.json": seedNetwork + seedAccess,
	} {
		r, want := record(t, name)
		f, err := project.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.CheckKeys(open); err != nil {
			t.Fatal(err)
		}
		if len(f.Workloads) != 2 {
			t.Fatalf("%s: %d workloads, want one a node", name, len(f.Workloads))
		}
		for i, w := range f.Workloads {
			if w.Name != "net1@"+want.Resources[i].NodeID || w.Node != want.Resources[i].NodeID || w.Network != "net1" || w.Duration != 30*24*time.Hour {
				t.Errorf("%s: workload %d is %+v", name, i, w)
			}
			data, err := w.Data(project.Targets{}, open, func(s *project.Secret) (string, error) {
				for j, k := range r.Secrets.Keys {
					if plain, err := open(s); err == nil && plain == k.Plaintext && s.Node == want.Resources[j].NodeID {
						return k.Ciphertext, nil
					}
				}
				return "", errors.New("not of the seed")
			})
			if err != nil {
				t.Fatal(err)
			}
			canonical, err := workload.Canonical([]byte(strings.Replace(r.DataText, `"net_id":"",`, "", 1)))
			if err != nil {
				t.Fatal(err)
			}
			if string(data) != string(canonical) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, data, canonical)
			}
			if err := w.Check(w.Node); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestKeysAreSealedToTheirOwnNodes(t *testing.T) {
	f, err := project.Parse("f", []byte(seedNetwork))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range f.Workloads {
		for i, s := range w.Secrets() {
			if want := f.Networks[0].Nodes[i].ID; s.Node != want || s.Path != "net_resources["+string(rune('0'+i))+"].wg_private_key" {
				t.Errorf("%s: secret %d at %s is for %s, want %s", w.Name, i, s.Path, s.Node, want)
			}
		}
	}
}

// TestNetworksChangeOnAllNodes: whatever changes in a network changes each of
// its workloads' digests, and nothing else does.
func TestNetworksChangeOnAllNodes(t *testing.T) {
	digests := func(text string) []string {
		f, err := project.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, w := range f.Workloads[:2] {
			d, err := w.Digest([]byte("k"), open)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, d)
		}
		return out
	}
	before := digests(seedNetwork)
	for what, c := range map[string]struct {
		text    string
		changes bool
	}{
		"the same":      {seedNetwork, false},
		"a comment":     {strings.Replace(seedNetwork, "nodes:", "nodes: # these", 1), false},
		"the duration":  {strings.Replace(seedNetwork, "30d", "60d", 1), false},
		"a port":        {strings.Replace(seedNetwork, "listen_port: 7752", "listen_port: 7753", 1), true},
		"an endpoint":   {strings.Replace(seedNetwork, "::11]", "::12]", 1), true},
		"an access":     {seedNetwork + seedAccess, true},
		"a private key": {strings.Replace(seedNetwork, "AGXj", "AGXk", 1), true},
	} {
		after := digests(c.text)
		for i := range before {
			if (after[i] != before[i]) != c.changes {
				t.Errorf("%s: the digest on node %d changes: %v, want %v", what, i, after[i] != before[i], c.changes)
			}
		}
	}
}

const twoNodes = `
project: p
node: NODE1
duration: 1d
networks:
  net1:
    ip_range: 10.1.0.0/16
    nodes:
      - {node: NODE1, subnet: 10.1.1.0/24, listen_port: 3001, endpoint: "192.0.2.1:3001", private_key: {secret: env:ONE}}
      - {node: NODE2, subnet: 10.1.2.0/24, listen_port: 3001, private_key: {secret: env:TWO}}
`

// TestMembersFindTheirNodesPart: a member is on its own node's part, and comes after it.
func TestMembersFindTheirNodesPart(t *testing.T) {
	f, err := project.Parse("f", withNodes(t, twoNodes+`
workloads:
  web:
    container: {flist: x, capacity: {cpu: 1, memory: 1}, network: {name: net1, ips: [10.1.1.2]}}
  vm:
    node: NODE2
    kubernetes: {size: 1, network: net1, ip: 10.1.2.2, cluster_secret: {secret: env:S}, ssh_keys: [a]}
  data:
    after: [net1]
    volume: {size: 1, type: SSD}
`))
	if err != nil {
		t.Fatal(err)
	}
	one, two := nodes(t)
	for name, part := range map[string]string{"web": one, "vm": two} {
		w := f.Find(name)
		if uses := w.Uses(); len(uses) != 1 || uses[0] != "net1@"+part {
			t.Errorf("%s uses %v", name, uses)
		}
		data, err := w.Data(project.Targets{Workloads: map[string]project.Target{"net1@" + part: {ID: "7-1", Hash: hashText(7)}}}, open, func(*project.Secret) (string, error) { return "00", nil })
		if err != nil || !strings.Contains(string(data), `"network_id":"net1"`) {
			t.Errorf("%s: the data is %s, %v", name, data, err)
		}
	}
	if first, second := f.Workloads[0].Name, f.Workloads[1].Name; first != "net1@"+one || second != "net1@"+two {
		t.Errorf("the order begins with %s and %s", first, second)
	}
	if parts := f.Parts("net1"); len(parts) != 2 || f.Parts("web")[0] != "web" {
		t.Errorf("net1 stands for %v", parts)
	}
	if r := f.Ranges(); len(r) == 0 || r[0].String() != "10.1.0.0/16" {
		t.Errorf("ranges are %v", r)
	}
	if p := f.Ports(two); len(p) != 1 || p[3001] != "net1" {
		t.Errorf("ports are %v", p)
	}
}

// TestMistakesInNetworks: each has its line, its field, and the allowed values.
func TestMistakesInNetworks(t *testing.T) {
	head := "project: p\nduration: 1d\nnode: NODE1\nnetworks:\n"
	net := head + "  net1:\n    ip_range: 10.1.0.0/16\n    nodes:\n"
	one := "      - {node: NODE1, subnet: 10.1.1.0/24, listen_port: 3001, endpoint: \"192.0.2.1:3001\", private_key: {secret: env:K}}\n"
	with := func(old, text string) string { return net + strings.Replace(one, old, text, 1) }
	for _, c := range []struct {
		file string
		line int
		says []string
	}{
		{head + "  - net1\n", 5, []string{"networks: is a list, must be a mapping"}},
		{head + "  Net: {ip_range: 10.1.0.0/16}\n", 5, []string{`networks.Net: "Net" isn't a name`, "small letter"}},
		{head + "  net1:\n", 5, []string{"networks.net1: is empty, must be a mapping"}},
		{head + "  net1: {nodes: []}\n", 5, []string{"networks.net1.ip_range: is missing", "/16"}},
		{head + "  net1: {ip_range: 10.1.0.0/16, peers: []}\n", 5, []string{"networks.net1.peers: is an unknown key; allowed are access, duration, ip_range, nodes"}},
		{head + "  net1:\n    ip_range: 10.1.0.0/24\n", 6, []string{"networks.net1.ip_range: is 10.1.0.0/24, must be a private IPv4 range of /16"}},
		{head + "  net1:\n    ip_range: 10.1.2.3/16\n", 6, []string{`networks.net1.ip_range: is "10.1.2.3/16"`, "nothing after the mask"}},
		{head + "  net1:\n    ip_range: 8.8.0.0/16\n", 6, []string{"is 8.8.0.0/16, must be a private IPv4 range"}},
		{head + "  net1:\n    ip_range: 10.1.0.0/16\n    duration: soon\n", 7, []string{"networks.net1.duration"}},
		{"project: p\nnetworks:\n  net1: {ip_range: 10.1.0.0/16}\n", 3, []string{"networks.net1.duration: is missing"}},
		{head + "  net1: {ip_range: 10.1.0.0/16}\n  net1: {ip_range: 10.1.0.0/16}\n", 6, []string{"networks.net1: is given twice"}},
		{head + "  net1: {ip_range: 10.1.0.0/16}\nworkloads:\n  net1:\n    volume: {size: 1, type: SSD}\n", 5, []string{"networks.net1: a workload has the same name"}},
		{head + "  net1: {ip_range: 10.1.0.0/16}\nworkloads:\n  a:\n    network: {name: net1}\n", 5, []string{`the workload "a" is a network of that name too`}},
		{with("node: NODE1, ", ""), 8, []string{"networks.net1.nodes[0].node: is missing"}},
		{with("subnet: 10.1.1.0/24, ", ""), 8, []string{"networks.net1.nodes[0].subnet: is missing"}},
		{with("listen_port: 3001, ", ""), 8, []string{"networks.net1.nodes[0].listen_port: is missing"}},
		{with(", private_key: {secret: env:K}", ""), 8, []string{"networks.net1.nodes[0].private_key: is missing"}},
		{with("node: NODE1", "node: here"), 8, []string{`networks.net1.nodes[0].node: is "here", must be a node's ID`}},
		{with("10.1.1.0/24", "10.2.1.0/24"), 8, []string{"networks.net1.nodes[0].subnet: is 10.2.1.0/24, must be a part of ip_range 10.1.0.0/16, from /17 to /30"}},
		{with("10.1.1.0/24", "10.1.1.7/24"), 8, []string{"nodes[0].subnet", "nothing after the mask"}},
		{with("listen_port: 3001", "listen_port: 80"), 8, []string{"nodes[0].listen_port: is 80, must be a port from 1024 to 65535"}},
		{with("listen_port: 3001", "listen_port: 65536"), 8, []string{"nodes[0].listen_port", "from 1024 to 65535"}},
		{with("listen_port: 3001", "listen_port: \"3001\""), 8, []string{"nodes[0].listen_port", "must be a port"}},
		{with("\"192.0.2.1:3001\"", "192.0.2.1"), 8, []string{`nodes[0].endpoint: is "192.0.2.1", must be HOST:PORT`}},
		{with("\"192.0.2.1:3001\"", "\"\""), 8, []string{"nodes[0].endpoint: is empty; leave it out"}},
		{with("{secret: env:K}", "YH8xDRZLbOCJAKTSc2iXhYTQ04hgxkmFC1//DnusOGs="), 8, []string{"nodes[0].private_key: is a secret and must be written as"}},
		{net + one + one, 9, []string{"networks.net1.nodes[1].node", "a node is in a network once"}},
		{net + one + strings.NewReplacer("NODE1", "NODE2", "192.0.2.1", "192.0.2.2").Replace(one), 9, []string{"nodes[1].subnet: is 10.1.1.0/24, which overlaps 10.1.1.0/24 of nodes[0]"}},
		{net + one + "    access: [{name: a, subnet: 10.1.2.0/24, public_key: x, via: NODE1}]\n", 9, []string{"access[0].public_key", "32 bytes in standard base64"}},
		{net + one + "    access: [{name: a, subnet: 10.1.2.0/24, via: NODE1}]\n", 9, []string{"access[0].public_key: is missing"}},
		{net + one + "    access: [{name: a, private_key: x}]\n", 9, []string{"access[0].private_key: is an unknown key; allowed are name, public_key, subnet, via"}},
		{net + one + "    access: [{name: a b, subnet: 10.1.2.0/24, public_key: DCElF6XS3fIkuvZKQyxtWGdM8PRsO09cvPcohRwEL34=, via: NODE1}]\n", 9, []string{`access[0].name: is "a b"`}},
		{net + one + "    access: [{name: a, subnet: 10.1.2.0/24, public_key: DCElF6XS3fIkuvZKQyxtWGdM8PRsO09cvPcohRwEL34=, via: NODE2}]\n", 9, []string{"access[0].via", "one of the network's nodes"}},
		{net + one + "  net2:\n    ip_range: 10.2.0.0/16\n    nodes:\n" + strings.Replace(one, "10.1.1", "10.2.1", 1), 12,
			[]string{`networks.net2.nodes[0].listen_port: is 3001, which network "net1" has on node`}},
		{net + one + "workloads:\n  hand:\n    network:\n      ip_range: 10.3.0.0/16\n      net_resources: [{node_id: NODE1, wg_listen_port: 3001}]\n", 8,
			[]string{`nodes[0].listen_port: is 3001, which network "hand" has on node`}},
		{net + one + "workloads:\n  web:\n    node: NODE2\n    container: {network: {name: net1}}\n", 12,
			[]string{`workloads.web.container.network.name: network "net1" has no part on node`, "croft network add-node net1"}},
	} {
		_, err := project.Parse("croft.yaml", withNodes(t, c.file))
		var e *project.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v, want a project.Error", c.file, err)
			continue
		}
		if e.Line != c.line {
			t.Errorf("%q: line %d, want %d: %v", c.file, e.Line, c.line, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), string(withNodes(t, s))) {
				t.Errorf("%q: %q doesn't say %q", c.file, err, s)
			}
		}
	}
}

// TestInvalidKeys: what a secret turns out to be is told without repeating it.
func TestInvalidKeys(t *testing.T) {
	const good, access = "YH8xDRZLbOCJAKTSc2iXhYTQ04hgxkmFC1//DnusOGs=", "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4="
	f, err := project.Parse("f.yaml", withNodes(t, twoNodes+"    access: [{name: a, subnet: 10.1.9.0/24, public_key: "+access+", via: NODE1}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		one, two string
		says     string
	}{
		{"hunter2", good, "line 9: networks.net1.nodes[0].private_key: env:ONE isn't a WireGuard private key"},
		{"AGXjtOoiZD8Ino0Qk/XMYSg35iN3MLyo0qWnbx9FrEI=", "hunter2", "line 10: networks.net1.nodes[1].private_key: env:TWO isn't a WireGuard private key"},
		{"AGXjtOoiZD8Ino0Qk/XMYSg35iN3MLyo0qWnbx9FrEI=", "AGXjtOoiZD8Ino0Qk/XMYSg35iN3MLyo0qWnbx9FrEI=", "env:TWO is the key of nodes[0] too"},
		{good, "AGXjtOoiZD8Ino0Qk/XMYSg35iN3MLyo0qWnbx9FrEI=", "env:ONE is the key of access[0] too"},
		{"", good, "the environment variable ONE is empty"},
	} {
		src := project.Source{Getenv: func(name string) (string, bool) { return map[string]string{"ONE": c.one, "TWO": c.two}[name], true }}
		err := f.CheckKeys(func(s *project.Secret) (string, error) { return s.Open(src) })
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "cannot read f.yaml") {
			t.Errorf("got %v, want an error about %q", err, c.says)
		}
	}
}
