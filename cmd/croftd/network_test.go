package main_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestANetworkFromReservationToDeletion(t *testing.T) {
	i := newInternet(t)
	n, _ := i.node("n1", "203.0.113.11")
	i.EchoIn(i.host("outside", "203.0.113.80").Path(), 80)
	part := i.Part(n, "10.1.2.0/24", 3001, "")
	r := i.Push(i.Networks(i.User, "net1", part)[0])
	result := i.Result(r, workload.StateOK)
	if string(result.Data) != "null" && len(result.Data) != 0 {
		t.Errorf("data is %s", result.Data)
	}
	id := nodetest.NetworkID(i.User, "net1")
	web := n.Join(node.MemberSpec{Network: id, Member: "5-1", Name: "web"})
	shell := n.Join(node.MemberSpec{Network: id, Member: "6-1"})
	web.Echo(80)
	for _, address := range []string{web.IPv4 + ":80", "[" + web.IPv6 + "]:80", "203.0.113.80:80"} {
		if err := shell.Reaches(address, 5*time.Second); err != nil {
			t.Errorf("a member doesn't reach %s: %v", address, err)
		}
	}
	s := n.Status()
	if len(s.Networks) != 1 || s.Networks[0].Drift != "" || len(s.Networks[0].Members) != 2 || s.Counters.Network != 1 {
		t.Errorf("status %+v", s)
	}
	i.Until(nodetest.Soon, "the explorer knows the port, and no address of croft's own", func() bool {
		got, err := i.Client.Node(t.Context(), n.ID)
		return err == nil && slices.Equal(got.WGPorts, []uint{3001}) && slices.Equal(got.Ifaces[0].Addrs, []string{"203.0.113.11/32"})
	})
	i.Delete(r)
	i.Until(nodetest.Soon, "the deletion waits for its members", func() bool {
		s := n.Status()
		return len(s.Workloads) == 1 && s.Workloads[0].Phase == "blocked" && s.Workloads[0].Error != ""
	})
	if err := shell.Reaches(web.IPv4+":80", 5*time.Second); err != nil {
		t.Errorf("a network in use was taken away: %v", err)
	}
	networks, _ := n.Modules()
	for _, member := range []string{"5-1", "6-1"} {
		if err := networks.Leave(t.Context(), id, member); err != nil {
			t.Error(err)
		}
	}
	i.Result(r, workload.StateDeleted)
	if s := n.Status(); len(s.Networks) != 0 || s.Counters.Network != 0 {
		t.Errorf("after the deletion: %+v", s.Networks)
	}
	n.Stop()
}

func TestOneNetworkOnTwoNodes(t *testing.T) {
	i := newInternet(t)
	one, _ := i.node("n1", "203.0.113.11")
	two, _ := i.node("n2", "203.0.113.12")
	// The second is hidden: its address is unknown until it sends.
	parts := []*nodetest.Part{i.Part(one, "10.1.1.0/24", 3001, "203.0.113.11:3001"), i.Part(two, "10.1.2.0/24", 3002, "")}
	for _, r := range i.Networks(i.User, "net1", parts...) {
		i.Result(i.Push(r), workload.StateOK)
	}
	id := nodetest.NetworkID(i.User, "net1")
	a := one.Join(node.MemberSpec{Network: id, Member: "5-1"})
	b := two.Join(node.MemberSpec{Network: id, Member: "6-1"})
	a.Echo(80)
	b.Echo(80)
	i.Until(nodetest.Soon, "the hidden node's member reaches the public one's", func() bool { return b.Reaches(a.IPv4+":80", 5*time.Second) == nil })
	for from, to := range map[*nodetest.Member][]string{b: {a.IPv4 + ":80", "[" + a.IPv6 + "]:80"}, a: {b.IPv4 + ":80", "[" + b.IPv6 + "]:80"}} {
		for _, address := range to {
			if err := from.Reaches(address, 5*time.Second); err != nil {
				t.Errorf("%s doesn't reach %s through the tunnel: %v", from.IPv4, address, err)
			}
		}
	}
	conn, err := b.Dial("tcp", a.IPv4+":80", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := nodetest.Ask(conn, "before", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	two.Kill()
	if err := nodetest.Ask(conn, "while its node's agent is dead", 5*time.Second); err != nil {
		t.Errorf("the tunnel has ended with the agent: %v", err)
	}
	two.Start()
	two.WaitReady()
	if err := nodetest.Ask(conn, "after", 5*time.Second); err != nil {
		t.Errorf("a restart of the agent has cut the tunnel: %v", err)
	}
	if s := two.Status(); len(s.Networks) != 1 || s.Networks[0].Drift != "" || s.Workloads[0].Phase != "deployed" {
		t.Errorf("after the restart: %+v", s)
	}
}

// TestAnUpdateIsAppliedInPlace: reserving the same network again changes it under its members without
// disturbing any of their connections.
func TestAnUpdateIsAppliedInPlace(t *testing.T) {
	i := newInternet(t)
	n, _ := i.node("n1", "203.0.113.11")
	part := i.Part(n, "10.1.2.0/24", 3001, "")
	first := i.Push(i.Networks(i.User, "net1", part)[0])
	i.Result(first, workload.StateOK)
	id := nodetest.NetworkID(i.User, "net1")
	web, shell := n.Join(node.MemberSpec{Network: id, Member: "5-1"}), n.Join(node.MemberSpec{Network: id, Member: "6-1"})
	web.Echo(80)
	conn, err := shell.Dial("tcp", web.IPv4+":80", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	part.Port = 3002
	laptop := i.Part(nil, "10.1.9.0/24", 0, "")
	second := i.Push(i.Networks(i.User, "net1", part, laptop)[0])
	i.Result(second, workload.StateOK)
	if err := nodetest.Ask(conn, "after the update", 5*time.Second); err != nil {
		t.Errorf("an update has cut a member's connection: %v", err)
	}
	s := n.Status()
	if len(s.Networks) != 1 || s.Networks[0].Label != second.ID || s.Networks[0].ListenPort != 3002 || len(s.Networks[0].Peers) != 1 || s.Counters.Network != 1 {
		t.Errorf("after the update: %+v, counters %+v", s.Networks, s.Counters)
	}
	// A reservation that was signed earlier is refused, and deleting the newest ends all of them.
	old := i.Networks(i.User, "net1", part)[0]
	old.Created = first.Created.Add(-time.Minute)
	if err := old.Sign(i.User.Private()); err != nil {
		t.Fatal(err)
	}
	if result := i.Result(i.Push(old), workload.StateError); !strings.Contains(result.Error, "must be after") {
		t.Errorf("an older one is answered %q", result.Error)
	}
	networks, _ := n.Modules()
	for _, member := range []string{"5-1", "6-1"} {
		if err := networks.Leave(t.Context(), id, member); err != nil {
			t.Error(err)
		}
	}
	i.Delete(second)
	i.Result(second, workload.StateDeleted)
	i.Result(first, workload.StateDeleted)
	if s := n.Status(); len(s.Networks) != 0 || s.Counters.Network != 0 {
		t.Errorf("after the deletion: %+v", s.Networks)
	}
}

// TestNetworkRefusals: a clear error, and no trace on the node.
func TestNetworkRefusals(t *testing.T) {
	i := newInternet(t)
	n, h := i.node("n1", "203.0.113.11")
	i.Lab.Veth(h, "lan0", i.Lab.Namespace("lan"), "eth0")
	h.Addr("lan0", "10.1.7.1/24")
	h.ListenUDP("0.0.0.0:3005")
	first := i.Push(i.Networks(i.User, "first", i.Part(n, "10.1.2.0/24", 3001, ""))[0])
	i.Result(first, workload.StateOK)
	for name, c := range map[string]struct {
		part  *nodetest.Part
		other *nodetest.Part
		says  string
	}{
		"a port that another network has": {i.Part(n, "10.1.2.0/24", 3001, ""), nil, "wg_listen_port is 3001"},
		"a port that a program has":       {i.Part(n, "10.1.2.0/24", 3005, ""), nil, "wg_listen_port is 3005"},
		"a privileged port":               {i.Part(n, "10.1.2.0/24", 53, ""), nil, "wg_listen_port"},
		"a range of the node's":           {i.Part(n, "10.1.7.128/25", 3002, ""), nil, "apart from the ranges that the node itself uses"},
		"an endpoint on the LAN":          {i.Part(n, "10.1.2.0/24", 3002, ""), i.Part(nil, "10.1.3.0/24", 0, "10.1.7.9:3001"), "refused"},
		"an endpoint on loopback":         {i.Part(n, "10.1.2.0/24", 3002, ""), i.Part(nil, "10.1.3.0/24", 0, "127.0.0.1:3001"), "loopback"},
		"an endpoint that is the node":    {i.Part(n, "10.1.2.0/24", 3002, ""), i.Part(nil, "10.1.3.0/24", 0, "203.0.113.11:3001"), "this node's own"},
		"another's private key":           {&nodetest.Part{Node: n, Subnet: "10.1.2.0/24", Port: 3002, Private: i.Part(n, "", 0, "").Private, Public: i.Part(n, "", 0, "").Public}, nil, "the public key of wg_private_key"},
	} {
		parts := []*nodetest.Part{c.part}
		if c.other != nil {
			parts = append(parts, c.other)
		}
		r := i.Networks(i.User, name, parts...)[0]
		if _, err := i.Client.Reserve(i.Context(), r); err != nil {
			// The explorer validates the document as the node does.
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: the explorer says %v", name, err)
			}
			continue
		}
		r = i.Push(r)
		if result := i.Result(r, workload.StateError); !strings.Contains(result.Error, c.says) || strings.Contains(result.Error, c.part.Private) {
			t.Errorf("%s: the node says %q", name, result.Error)
		}
	}
	if s := n.Status(); len(s.Networks) != 1 || s.Networks[0].Label != first.ID || s.Networks[0].Drift != "" {
		t.Errorf("what was refused left something: %+v", s.Networks)
	}
}

// TestARebootWithoutTheExplorer: namespaces, links and rules are gone; the node remakes all of them
// from the store, verifies each signature and decrypts each key again.
func TestARebootWithoutTheExplorer(t *testing.T) {
	i := newInternet(t)
	one, _ := i.node("n1", "203.0.113.11")
	two, _ := i.node("n2", "203.0.113.12")
	parts := []*nodetest.Part{i.Part(one, "10.1.1.0/24", 3001, "203.0.113.11:3001"), i.Part(two, "10.1.2.0/24", 3002, "203.0.113.12:3002")}
	for _, r := range i.Networks(i.User, "net1", parts...) {
		i.Result(i.Push(r), workload.StateOK)
	}
	id := nodetest.NetworkID(i.User, "net1")
	i.StopExplorer()
	one.Kill()
	one.Reboot()
	one.Start()
	i.Until(nodetest.Soon, "the network is back", func() bool {
		s, err := one.TryStatus()
		return err == nil && s.Adopted && len(s.Networks) == 1 && s.Networks[0].Drift == "" && s.Counters.Network == 1
	})
	a, b := one.Join(node.MemberSpec{Network: id, Member: "5-1"}), two.Join(node.MemberSpec{Network: id, Member: "6-1"})
	b.Echo(80)
	i.Until(nodetest.Soon, "the tunnel is back", func() bool { return a.Reaches(b.IPv4+":80", 3*time.Second) == nil })
}

// TestAChangedEndpointIsFollowed: by the tunnel when the peer sends from another address, and by an
// update that announces it.
func TestAChangedEndpointIsFollowed(t *testing.T) {
	i := newInternet(t)
	one, h := i.node("n1", "203.0.113.11")
	two, _ := i.node("n2", "203.0.113.12")
	parts := []*nodetest.Part{i.Part(one, "10.1.1.0/24", 3001, "203.0.113.11:3001"), i.Part(two, "10.1.2.0/24", 3002, "203.0.113.12:3002")}
	for _, r := range i.Networks(i.User, "net1", parts...) {
		i.Result(i.Push(r), workload.StateOK)
	}
	id := nodetest.NetworkID(i.User, "net1")
	a, b := one.Join(node.MemberSpec{Network: id, Member: "5-1"}), two.Join(node.MemberSpec{Network: id, Member: "6-1"})
	a.Echo(80)
	b.Echo(80)
	i.Until(nodetest.Soon, "the tunnel is up", func() bool { return a.Reaches(b.IPv4+":80", 3*time.Second) == nil })
	// The first node moves, as one behind a changing address does, and sends.
	h.Run("ip", "addr", "del", "203.0.113.11/24", "dev", "eth0")
	h.Run("ip", "addr", "add", "203.0.113.31/24", "dev", "eth0")
	h.Run("ip", "route", "replace", "default", "via", "203.0.113.1")
	i.Until(nodetest.Soon, "the tunnel has followed", func() bool {
		return a.Reaches(b.IPv4+":80", 3*time.Second) == nil && b.Reaches(a.IPv4+":80", 3*time.Second) == nil
	})
	if peers := two.Status().Networks[0].Peers; len(peers) != 1 || peers[0].Endpoint != "203.0.113.31:3001" {
		t.Errorf("the second node sends to %+v", peers)
	}
	// Both change their ports, so that neither can find the other by itself.
	parts[0].Endpoint, parts[0].Port = "203.0.113.31:4001", 4001
	parts[1].Endpoint, parts[1].Port = "203.0.113.12:4002", 4002
	for _, r := range i.Networks(i.User, "net1", parts...) {
		i.Result(i.Push(r), workload.StateOK)
	}
	i.Until(nodetest.Soon, "the tunnel has followed the update", func() bool {
		return a.Reaches(b.IPv4+":80", 3*time.Second) == nil && b.Reaches(a.IPv4+":80", 3*time.Second) == nil
	})
}
