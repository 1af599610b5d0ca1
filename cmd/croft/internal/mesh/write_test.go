package mesh_test

import (
	"bufio"
	"encoding/base64"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
)

func TestKeys(t *testing.T) {
	// As the seed's tool made them.
	for private, want := range map[string]string{
		"YH8xDRZLbOCJAKTSc2iXhYTQ04hgxkmFC1//DnusOGs=": "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=",
		"AGXjtOoiZD8Ino0Qk/XMYSg35iN3MLyo0qWnbx9FrEI=": "SDM+EAZHxFCAj+gJd/8QrCbYrB97AkZztNVe9GmW9XQ=",
	} {
		if public, err := mesh.PublicKey(private); err != nil || public != want {
			t.Errorf("the public key is %s, %v; want %s", public, err, want)
		}
	}
	for _, bad := range []string{"", "hunter2", strings.Repeat("A", 43) + "=", strings.Repeat("A", 44), "hunter2" + strings.Repeat("A", 37)} {
		if _, err := mesh.PublicKey(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, want an error that doesn't repeat it", bad, err)
		}
	}
	one, err := mesh.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := mesh.NewKey()
	if err != nil || one == other {
		t.Fatalf("two keys are the same: %v", err)
	}
	raw, err := base64.StdEncoding.DecodeString(one)
	if err != nil || len(raw) != 32 || raw[0]&7 != 0 || raw[31]&0xc0 != 0x40 {
		t.Errorf("not a clamped key: %v", err)
	}
}

func quick(private string) mesh.Quick {
	n := network([]mesh.Node{public(1), hidden(2)}, access(3, "n1"))
	n.Nodes[0].Endpoint = "[2001:db8::7]:3001"
	return mesh.Quick{Network: n, User: "user", Access: n.Access[0], PrivateKey: private, ViaKey: key(7)}
}

// TestQuickFile reads the file as wg-quick does.
func TestQuickFile(t *testing.T) {
	private, err := mesh.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	got := parseQuick(t, quick(private).String())
	if got["Interface.PrivateKey"] != private || got["Peer.PublicKey"] != key(7) || got["Peer.Endpoint"] != "[2001:db8::7]:3001" || got["Peer.PersistentKeepalive"] != "25" {
		t.Errorf("got %v", got)
	}
	addresses, allowed := prefixes(t, got["Interface.Address"]), prefixes(t, got["Peer.AllowedIPs"])
	if len(addresses) != 2 || addresses[0].String() != "10.1.3.1/32" || !addresses[1].IsSingleIP() || !addresses[1].Addr().Is6() {
		t.Errorf("addresses are %v", addresses)
	}
	if len(allowed) != 3 || allowed[0].String() != "10.1.0.0/16" || allowed[1].String() != "100.64.0.0/16" || allowed[2].Bits() != 48 || !allowed[2].Contains(addresses[1].Addr()) {
		t.Errorf("allowed are %v", allowed)
	}
	if got["Interface.DNS"] != "" {
		t.Errorf("DNS is asked without a word: %v", got)
	}
	got = parseQuick(t, quick("").String())
	if _, there := got["Interface.PrivateKey"]; there {
		t.Errorf("a private key that isn't known: %v", got)
	}
}

// parseQuick reads a file of sections and keys, and refuses what wg-quick doesn't know.
func parseQuick(t *testing.T, text string) map[string]string {
	t.Helper()
	known := " Interface.PrivateKey Interface.Address Peer.PublicKey Peer.AllowedIPs Peer.Endpoint Peer.PersistentKeepalive "
	out, section := map[string]string{}, ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		if line == "" {
			continue
		}
		k, v, ok := strings.Cut(line, " = ")
		name := section + "." + k
		if _, twice := out[name]; !ok || twice || !strings.Contains(known, " "+name+" ") {
			t.Fatalf("%q isn't a line of a wg-quick file", line)
		}
		out[name] = v
	}
	if _, _, err := net.SplitHostPort(out["Peer.Endpoint"]); err != nil {
		t.Error(err)
	}
	return out
}

func prefixes(t *testing.T, text string) []netip.Prefix {
	t.Helper()
	var out []netip.Prefix
	for _, one := range strings.Split(text, ", ") {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestDot(t *testing.T) {
	n := network([]mesh.Node{public(1), hidden(2)}, access(3, "n1"))
	const want = `digraph "net1" {
  label="net1\n10.1.0.0/16";
  node [shape=box];
  "node n1" [label="n1\n10.1.1.0/24\n192.0.2.1:3001"];
  "node n2" [label="n2\n10.1.2.0/24\nhidden", style=dashed];
  "access a3" [label="a3\n10.1.3.0/24", shape=ellipse, style=dashed];
  "node n1" -> "node n2" [label="10.1.2.0/24\n100.64.1.2/32", style=dashed];
  "node n1" -> "access a3" [label="10.1.3.0/24\n100.64.1.3/32", style=dashed];
  "node n2" -> "node n1" [label="10.1.1.0/24\n100.64.1.1/32\n10.1.3.0/24\n100.64.1.3/32"];
  "access a3" -> "node n1" [label="10.1.0.0/16\n100.64.0.0/16"];
}
`
	if got := n.Dot(); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestDotIsDot: whatever the names are, each line is one of the language.
func TestDotIsDot(t *testing.T) {
	text := `"(?:[^"\\\n]|\\.)*"`
	attributes := `label=` + text + `(?:, [a-z]+=[a-z]+)*`
	statement := regexp.MustCompile(`^(?:digraph ` + text + ` \{|  label=` + text + `;|  node \[shape=box\];|  ` + text + `(?: -> ` + text + `)? \[` + attributes + `\];|\}|)$`)
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t)
		n.Name = rapid.String().Draw(t, "name")
		for i := range n.Access {
			n.Access[i].Name = rapid.String().Draw(t, "access")
		}
		text := n.Dot()
		for _, line := range strings.Split(text, "\n") {
			if !statement.MatchString(line) {
				t.Fatalf("%q isn't a statement", line)
			}
		}
		if again := n.Dot(); again != text {
			t.Fatal("it is another one each time")
		}
	})
}
