package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// person is a user with the croft command, a key and a project file.
type person struct {
	*internet
	dir string
	key sign.KeyPair
}

func newPerson(t *testing.T, i *internet) *person {
	t.Helper()
	p := &person{internet: i, dir: t.TempDir()}
	p.croft("id", "create")
	raw, err := os.ReadFile(filepath.Join(p.dir, "id.seed"))
	if err == nil {
		p.key, err = sign.FromSeed(raw[len(raw)-32:])
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// croft runs the command to its end and returns its output.
func (p *person) croft(args ...string) string {
	p.Helper()
	line := append([]string{"--net=" + p.Hub.Path(), p.Croft, "--explorer", p.URL, "--id", filepath.Join(p.dir, "id.seed")}, args...)
	cmd := exec.CommandContext(p.Context(), "nsenter", line...)
	cmd.Dir = p.dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("croft %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// TestAnExternalUserWithAWGQuickFile: a network made with croft on a public
// and a hidden node, and a laptop that uses the file that croft printed.
func TestAnExternalUserWithAWGQuickFile(t *testing.T) {
	i := newInternet(t)
	open, _ := i.node("n1", "203.0.113.11")
	hidden, _ := i.node("n2", "203.0.113.12")
	p := newPerson(t, i)
	p.croft("network", "create", "net1")
	p.croft("network", "add-node", "net1", open.ID, "--endpoint", "203.0.113.11")
	p.croft("network", "add-node", "net1", hidden.ID, "--endpoint", "none")
	p.croft("apply", "--wait", "--yes")
	id := nodetest.NetworkID(p.key, "net1")
	a, b := open.Join(node.MemberSpec{Network: id, Member: "5-1"}), hidden.Join(node.MemberSpec{Network: id, Member: "6-1"})
	a.Echo(80)
	b.Echo(80)
	file := p.croft("network", "add-access", "net1", "laptop")
	p.croft("apply", "--wait", "--yes")
	laptop := i.host("laptop", "203.0.113.50")
	i.WGQuick(laptop, "laptop", file)
	all := []string{a.IPv4 + ":80", b.IPv4 + ":80", "[" + a.IPv6 + "]:80", "[" + b.IPv6 + "]:80"}
	i.Until(nodetest.Soon, "the laptop reaches the members of both nodes", func() bool { return i.reached(laptop.Path(), all) == nil })
	// On the node that it connects to, it reaches only the network.
	if _, err := laptop.DialTCP("10.1.1.1:80", time.Second); err == nil {
		t.Error("the laptop reaches a port of the gateway")
	}
	open.Kill()
	if err := i.reached(laptop.Path(), all); err != nil {
		t.Errorf("while the agent is dead: %v", err)
	}
	open.Start()
	open.WaitReady()
	if err := i.reached(laptop.Path(), all); err != nil {
		t.Errorf("after its restart: %v", err)
	}
	if dot := p.croft("network", "graph", "net1"); !strings.Contains(dot, "digraph") || !strings.Contains(dot, "laptop") {
		t.Errorf("the graph is %s", dot)
	}
	p.croft("network", "remove-access", "net1", "laptop")
	p.croft("apply", "--wait", "--yes")
	i.Until(nodetest.Soon, "the laptop is locked out", func() bool { return i.reached(laptop.Path(), all[:1]) != nil })
}

// reached returns which of the addresses, if any, isn't reachable from a namespace.
func (i *internet) reached(namespace string, addresses []string) error {
	for _, address := range addresses {
		if err := i.ReachesFrom(namespace, address, 3*time.Second); err != nil {
			return err
		}
	}
	return nil
}
