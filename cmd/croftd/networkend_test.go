package main_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// shortly is the duration of a network that is to expire. A busy machine makes it and its members within it.
const shortly = 30 * time.Second

// lasting signs a network's reservation for another duration.
func (i *internet) lasting(r *workload.Reservation, d time.Duration) *workload.Reservation {
	i.Helper()
	r.Duration = d
	if err := r.Sign(i.User.Private()); err != nil {
		i.Fatal(err)
	}
	return r
}

// TestANetworkThatExpiresWaitsForItsMembers: it isn't removed while it has members.
func TestANetworkThatExpiresWaitsForItsMembers(t *testing.T) {
	i := newInternet(t)
	n, _ := i.node("n1", "203.0.113.11")
	r := i.Push(i.lasting(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0], shortly))
	i.Result(r, workload.StateOK)
	id := nodetest.NetworkID(i.User, "net1")
	web, shell := n.Join(node.MemberSpec{Network: id, Member: "5-1"}), n.Join(node.MemberSpec{Network: id, Member: "6-1"})
	web.Echo(80)
	i.Until(nodetest.Soon, "its end has come, and waits", func() bool {
		s := n.Status()
		return len(s.Workloads) == 1 && s.Workloads[0].Phase == "blocked" && s.Workloads[0].Attempts > 0
	})
	if err := shell.Reaches(web.IPv4+":80", 5*time.Second); err != nil {
		t.Errorf("its end took it away under its members: %v", err)
	}
	networks, _ := n.Modules()
	for _, member := range []string{"5-1", "6-1"} {
		if err := networks.Leave(t.Context(), id, member); err != nil {
			t.Error(err)
		}
	}
	i.Result(r, workload.StateExpired)
	if s := n.Status(); len(s.Networks) != 0 {
		t.Errorf("expired, and still there: %+v", s.Networks)
	}
}

// TestTheEndOfAnOlderOneIsNotTheNewers: an update lives for its own duration, whenever the replaced
// network would have expired.
func TestTheEndOfAnOlderOneIsNotTheNewers(t *testing.T) {
	i := newInternet(t)
	n, _ := i.node("n1", "203.0.113.11")
	part := i.Part(n, "10.1.2.0/24", 3001, "")
	older := i.Push(i.lasting(i.Networks(i.User, "net1", part)[0], shortly))
	i.Result(older, workload.StateOK)
	newer := i.Push(i.Networks(i.User, "net1", part)[0])
	i.Result(newer, workload.StateOK)
	id := nodetest.NetworkID(i.User, "net1")
	web, shell := n.Join(node.MemberSpec{Network: id, Member: "5-1"}), n.Join(node.MemberSpec{Network: id, Member: "6-1"})
	web.Echo(80)
	i.Result(older, workload.StateExpired)
	if err := shell.Reaches(web.IPv4+":80", 5*time.Second); err != nil {
		t.Errorf("the end of the older one has ended the newer: %v", err)
	}
	s := n.Status()
	if len(s.Networks) != 1 || s.Networks[0].Label != newer.ID || s.Networks[0].Drift != "" || s.Counters.Network != 1 {
		t.Errorf("%+v, counters %+v", s.Networks, s.Counters)
	}
}
