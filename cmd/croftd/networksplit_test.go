package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestAsProcessesANetwork: the same on a node whose modules are separate processes. The network goes on
// whichever of them dies, and damage is repaired.
func TestAsProcessesANetwork(t *testing.T) {
	i := newInternet(t)
	i.EchoIn(i.host("outside", "203.0.113.80").Path(), 80)
	i.Namespace = i.host("n1", "203.0.113.11").Path()
	s := i.StartSplit("n1", "--allow-private", nodetest.Public)
	i.Namespace = i.Hub.Path()
	part := i.Part(s.Node, "10.1.2.0/24", 3001, "")
	r := i.Push(i.Networks(i.User, "net1", part)[0])
	i.Result(r, workload.StateOK)
	id := nodetest.NetworkID(i.User, "net1")
	web, shell := s.Join(node.MemberSpec{Network: id, Member: "5-1", Name: "web"}), s.Join(node.MemberSpec{Network: id, Member: "6-1"})
	web.Echo(80)
	works := func(when string) {
		t.Helper()
		for _, address := range []string{web.IPv4 + ":80", "[" + web.IPv6 + "]:80", "203.0.113.80:80"} {
			if err := shell.Reaches(address, 5*time.Second); err != nil {
				t.Errorf("%s: %s isn't reached: %v", when, address, err)
			}
		}
	}
	works("at first")
	for _, name := range []string{"network", "provision", "identity"} {
		s.Parts[name].Kill()
		works(name + " is dead")
		s.StartPart(name)
	}
	s.WaitReady()
	i.Until(nodetest.Soon, "the node has its network", func() bool {
		status, err := s.TryStatus()
		return err == nil && status.Adopted && len(status.Networks) == 1 && status.Networks[0].Drift == "" && len(status.Networks[0].Members) == 2
	})
	works("after they were started again")
	if out, err := nodetest.Command(s.Status().Networks[0].Namespace, "ip", "link", "del", "br0"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	i.Until(back, "the bridge is back", func() bool { return shell.Reaches(web.IPv4+":80", time.Second) == nil })
	if !strings.Contains(s.Parts["provision"].Output(), "link br0 is gone") {
		t.Error("nobody has said what was gone")
	}
	networks, _ := s.Modules()
	for _, member := range []string{"5-1", "6-1"} {
		if err := networks.Leave(t.Context(), id, member); err != nil {
			t.Error(err)
		}
	}
	i.Delete(r)
	i.Result(r, workload.StateDeleted)
	s.StopAll()
}
