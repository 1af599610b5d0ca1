package main_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/nodetest"
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
	i.Delete(r)
	i.Until(20*time.Second, "the deletion waits for its members", func() bool {
		s := n.Status()
		return len(s.Workloads) == 1 && s.Workloads[0].Phase == "leaving" && s.Workloads[0].Cause != ""
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
	// The second is hidden: nobody knows where it is until it speaks.
	parts := []*nodetest.Part{i.Part(one, "10.1.1.0/24", 3001, "203.0.113.11:3001"), i.Part(two, "10.1.2.0/24", 3002, "")}
	for _, r := range i.Networks(i.User, "net1", parts...) {
		i.Result(i.Push(r), workload.StateOK)
	}
	id := nodetest.NetworkID(i.User, "net1")
	a := one.Join(node.MemberSpec{Network: id, Member: "5-1"})
	b := two.Join(node.MemberSpec{Network: id, Member: "6-1"})
	a.Echo(80)
	b.Echo(80)
	i.Until(30*time.Second, "the hidden node's member reaches the public one's", func() bool { return b.Reaches(a.IPv4+":80", 5*time.Second) == nil })
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
