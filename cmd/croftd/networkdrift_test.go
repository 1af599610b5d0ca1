package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// damaged is a node with a network and two members, for tests of damage.
type damaged struct {
	*internet
	node     *nodetest.Node
	host     *netlab.Namespace
	r        *workload.Reservation
	web, cat *nodetest.Member
}

func newDamaged(t *testing.T, args ...string) *damaged {
	t.Helper()
	d := &damaged{internet: newInternet(t)}
	d.node, d.host = d.internet.node("n1", "203.0.113.11", args...)
	d.furnish()
	return d
}

func (d *damaged) furnish() {
	d.Helper()
	d.r = d.Push(d.Networks(d.User, "net1", d.Part(d.node, "10.1.2.0/24", 3001, ""))[0])
	d.Result(d.r, workload.StateOK)
	id := nodetest.NetworkID(d.User, "net1")
	d.web, d.cat = d.node.Join(node.MemberSpec{Network: id, Member: "5-1"}), d.node.Join(node.MemberSpec{Network: id, Member: "6-1"})
	d.web.Echo(80)
	d.EchoIn(d.Host("outside", "203.0.113.80").Path(), 80)
}

// namespace is the network's namespace on the node.
func (d *damaged) namespace() string {
	d.Helper()
	found, err := filepath.Glob(filepath.Join(d.node.RunDir(), "network", "netns", "*"))
	if err != nil || len(found) != 1 {
		d.Fatalf("%d namespaces, %v", len(found), err)
	}
	return found[0]
}

// run runs a command in a network namespace.
func (d *damaged) run(namespace string, command ...string) {
	d.Helper()
	if out, err := nodetest.Command(namespace, command...); err != nil {
		d.Fatalf("%v: %v: %s", command, err, out)
	}
}

// works returns what fails in the network; nil when all works.
func (d *damaged) works() error {
	if err := d.cat.Reaches(d.web.IPv4+":80", time.Second); err != nil {
		return fmt.Errorf("one member doesn't reach the other: %w", err)
	}
	if err := d.cat.Reaches("203.0.113.80:80", time.Second); err != nil {
		return fmt.Errorf("a member doesn't reach the outside: %w", err)
	}
	s := d.node.Status()
	if len(s.Networks) != 1 || s.Networks[0].Drift != "" || s.Network.Drift != "" {
		return fmt.Errorf("the node says: %+v, %s", s.Networks, s.Network.Drift)
	}
	return nil
}

// comesBack fails unless all works again in time, and the log mentions it.
func (d *damaged) comesBack(t *testing.T, began time.Time, says string) {
	t.Helper()
	err := d.works()
	for err != nil && time.Since(began) < back {
		err = d.works()
	}
	if err != nil {
		t.Fatalf("not back after %s: %v", back, err)
	}
	t.Logf("back after %s", time.Since(began).Round(100*time.Millisecond))
	if log := d.log(); !strings.Contains(log, says) || !strings.Contains(log, `"step":"drift"`) {
		t.Errorf("nobody has said %q", says)
	}
}

// log is the log of all of the node's processes.
func (i *internet) log() string {
	i.Helper()
	found, err := filepath.Glob(i.Path("*.log"))
	if err != nil {
		i.Fatal(err)
	}
	var all strings.Builder
	for _, file := range found {
		raw, err := os.ReadFile(file)
		if err != nil {
			i.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}

func TestDamagedNetworkIsRestored(t *testing.T) {
	d := newDamaged(t)
	if err := d.works(); err != nil {
		t.Fatal(err)
	}
	member := func() string { return d.web.Path() }
	host := func() string { return d.host.Path() }
	for _, c := range []struct {
		name  string
		where func() string
		run   string
		says  string
	}{
		{"the bridge is removed", d.namespace, "ip link del br0", "link br0 is gone"},
		{"a port's veth is removed", d.namespace, "ip link del m0", "link m0 is gone"},
		{"a route is removed", d.namespace, "ip route del default", "up0 has no route 0.0.0.0/0"},
		{"the uplink is removed", d.namespace, "ip link del up0", "link up0 is gone"},
		{"the tunnel's link is removed", d.namespace, "ip link del wg0", "wg0"},
		{"a member's veth is removed", member, "ip link del eth0", "link m0 is gone"},
		{"the network's tables are flushed", d.namespace, "nft flush ruleset", "table"},
		{"the node's tables are flushed", host, "nft flush ruleset", "the node's rules differed from the desired ones"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			d.run(c.where(), strings.Fields(c.run)...)
			d.comesBack(t, began, c.says)
		})
	}
	t.Run("the namespace is removed", func(t *testing.T) {
		began := time.Now()
		if err := unix.Unmount(d.namespace(), unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		d.comesBack(t, began, "its namespace is gone")
	})
	t.Run("the carrier is killed", func(t *testing.T) {
		began, before := time.Now(), d.node.Carrier()
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		d.Until(back, "there is another carrier", func() bool { return d.node.Carrier() != before && d.node.Status().Network.Carrier != 0 })
		d.comesBack(t, began, "the carrier had ended")
	})
	t.Run("the carrier is killed while the agent is down", func(t *testing.T) {
		d.node.Kill()
		if err := syscall.Kill(d.node.Carrier(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		d.node.Start()
		d.node.WaitReady()
		d.comesBack(t, began, "its tunnel is down")
	})
	s := d.node.Status()
	if len(s.Workloads) != 1 || s.Workloads[0].Phase != "deployed" || s.Workloads[0].Restored == 0 || s.Workloads[0].Drift == nil {
		t.Errorf("the status doesn't tell what was restored: %+v", s.Workloads)
	}
	if result := d.Result(d.r, workload.StateOK); result.Error != "" {
		t.Errorf("its user was told %+v", result)
	}
}

// TestAnOrphanNetwork: a network with a label but no record is reported, and removed after the grace
// period.
func TestAnOrphanNetwork(t *testing.T) {
	i := newInternet(t)
	n, _ := i.node("n1", "203.0.113.11", "--grace", "1s")
	i.Result(i.Push(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0]), workload.StateOK)
	i.StopExplorer()
	n.Kill()
	if err := os.RemoveAll(filepath.Join(n.StateDir(), "store")); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitReady()
	i.Until(nodetest.Soon, "the orphan was removed", func() bool { return nodetest.Happened(n, work.ReasonOrphanRemoved, "network/1-1") == 1 })
	if s := n.Status(); len(s.Networks) != 0 || len(s.Orphans) != 0 || nodetest.Happened(n, work.ReasonOrphaned, "network/1-1") != 1 {
		t.Errorf("there are the networks %+v and the orphans %+v; it was reported %d times", s.Networks, s.Orphans, nodetest.Happened(n, work.ReasonOrphaned, "network/1-1"))
	}
}

// TestNetworksOfOneID: a lying explorer and a lost store have left two networks under the ID of a
// third. Both are reported and removed, and the user's is unaffected.
func TestNetworksOfOneID(t *testing.T) {
	i := newInternet(t)
	n, _ := i.node("n1", "203.0.113.11", "--grace", "1s")
	r := i.Push(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0])
	i.Result(r, workload.StateOK)
	own := nodetest.NetworkID(i.User, "net1")
	path := filepath.Join(n.RunDir(), "network", "netns", own)
	before := inode(t, path)
	networks, _ := n.Modules()
	// The module lists networks by key: one is before the user's, one behind it.
	for k, id := range []string{strings.Repeat("0", len(own)), strings.Repeat("f", len(own))} {
		part := i.Part(n, fmt.Sprintf("10.%d.2.0/24", k+2), uint16(3002+k), "")
		_, err := networks.Create(t.Context(), node.NetworkSpec{
			ID: id, Label: "1-1", Hash: workload.Hash{byte(k + 1)}.Hex(), User: i.User.ID(), Name: fmt.Sprintf("left%d", k),
			IPRange: fmt.Sprintf("10.%d.0.0/16", k+2), Subnet: part.Subnet, PrivateKey: part.Private, PublicKey: part.Public, ListenPort: part.Port,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	i.Until(nodetest.Soon, "both orphans were removed", func() bool { return nodetest.Happened(n, work.ReasonOrphanRemoved, "network/1-1") == 2 })
	s := n.Status()
	if len(s.Orphans) != 0 || len(s.Networks) != 1 || nodetest.Happened(n, work.ReasonOrphaned, "network/1-1") != 2 {
		t.Fatalf("there are the networks %+v and the orphans %+v; %d were reported", s.Networks, s.Orphans, nodetest.Happened(n, work.ReasonOrphaned, "network/1-1"))
	}
	if s.Networks[0].ID != own || len(s.Workloads) != 1 || s.Workloads[0].Phase != "deployed" || s.Workloads[0].Restored != 0 {
		t.Errorf("there is %+v, %+v", s.Networks, s.Workloads)
	}
	if after := inode(t, path); after != before {
		t.Errorf("the user's network was made anew: namespace %d, was %d", after, before)
	}
}

// inode is the inode of the namespace that a file holds.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}
