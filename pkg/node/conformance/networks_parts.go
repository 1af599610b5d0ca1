package conformance

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

func networksCreate(t *testing.T, s NetworksSubject) {
	spec, info := s.create(t, "net1", "10.1.2.0/24")
	if info.ID != spec.ID || info.Label != "1-1" || info.User != spec.User || info.Name != "net1" || info.Subnet != "10.1.2.0/24" ||
		info.Gateway != "10.1.2.1" || info.ListenPort != spec.ListenPort || info.Namespace == "" || info.Drift != "" || len(info.Members) != 0 {
		t.Errorf("made %+v", info)
	}
	if info.Backend != "kernel" && info.Backend != "userspace" {
		t.Errorf("backend is %q", info.Backend)
	}
	if got := s.one(t); got.Drift != "" || got.ID != spec.ID {
		t.Errorf("listed %+v", got)
	}
	subnet, err := s.Client.Subnet(t.Context(), spec.ID)
	expect.NoError(t, err)
	gateway, err := s.Client.Gateway(t.Context(), spec.ID)
	expect.NoError(t, err)
	if subnet != "10.1.2.0/24" || gateway != "10.1.2.1" {
		t.Errorf("subnet %s, gateway %s", subnet, gateway)
	}
	status, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	if status.Networks != 1 || status.Backend != info.Backend || status.Drift != "" {
		t.Errorf("status %+v", status)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), spec.ID))
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Errorf("deleted, and still there: %+v", list)
	}
}

func networksTwice(t *testing.T, s NetworksSubject) {
	spec, first := s.create(t, "net1", "10.1.2.0/24")
	again, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if !reflect.DeepEqual(first, again) {
		t.Errorf("made twice it is %+v, was %+v", again, first)
	}
	s.one(t)
}

func networksChange(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	member := s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	spec.Label = "2-1"
	spec.ListenPort = s.Port(t)
	spec.Peers = []workload.WireGuardPeer{{
		Subnet: "10.1.3.0/24", PublicKey: "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=", AllowedIPs: []string{"10.1.3.0/24", "100.64.1.3/32"},
	}}
	info, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if info.Label != "2-1" || info.ListenPort != spec.ListenPort || len(info.Peers) != 1 || info.Drift != "" {
		t.Errorf("changed to %+v", info)
	}
	if len(info.Members) != 1 || !reflect.DeepEqual(info.Members[0], member) {
		t.Errorf("its member was %+v, is %+v", member, info.Members)
	}
	spec.Peers = nil
	info, err = s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if len(info.Peers) != 0 || info.Drift != "" {
		t.Errorf("without peers it is %+v", info)
	}
	spec.Subnet = "10.1.4.0/24"
	_, err = s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Refused)
	expect.Text(t, err, member.IPv4)
	if got := s.one(t); got.Subnet != "10.1.2.0/24" || got.Drift != "" {
		t.Errorf("what was refused has changed it: %+v", got)
	}
}

func networksRemoveNothing(t *testing.T, s NetworksSubject) {
	spec := NetworkSpec(t, "net1", "10.1.2.0/24", s.Port(t))
	expect.Kind(t, s.Client.Delete(t.Context(), spec.ID), node.NotExist)
	expect.Kind(t, s.Client.Leave(t.Context(), spec.ID, "5-1"), node.NotExist)
	expect.Kind(t, s.Taps.Remove(t.Context(), "5-1"), node.NotExist)
	_, err := s.Client.Subnet(t.Context(), spec.ID)
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.Gateway(t.Context(), spec.ID)
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.Join(t.Context(), node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	expect.Kind(t, err, node.NotExist)
	spec, _ = s.create(t, "net1", "10.1.2.0/24")
	expect.Kind(t, s.Client.Leave(t.Context(), spec.ID, "5-1"), node.NotExist)
	for _, name := range expect.BadNames() {
		expect.Kind(t, s.Client.Delete(t.Context(), name), node.NotExist)
	}
}

func networksInUse(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	err := s.Client.Delete(t.Context(), spec.ID)
	expect.Kind(t, err, node.Busy)
	expect.Text(t, err, "5-1")
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "5-1"))
	expect.Kind(t, s.Client.Leave(t.Context(), spec.ID, "5-1"), node.NotExist)
	expect.NoError(t, s.Client.Delete(t.Context(), spec.ID))
	expect.Kind(t, s.Client.Delete(t.Context(), spec.ID), node.NotExist)
}

func networksRestart(t *testing.T, s NetworksSubject) {
	spec, before := s.create(t, "net1", "10.1.2.0/24")
	member := s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", Name: "web", PID: s.Process(t)})
	s.Client, s.Taps = s.Restart(t)
	after := s.one(t)
	if after.Drift != "" || after.Gateway6 != before.Gateway6 || after.Namespace != before.Namespace || len(after.Members) != 1 || !reflect.DeepEqual(after.Members[0], member) {
		t.Errorf("after a restart it is %+v, was %+v with %+v", after, before, member)
	}
	info, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if info.Drift != "" {
		t.Errorf("made again: %s", info.Drift)
	}
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "5-1"))
	expect.NoError(t, s.Client.Delete(t.Context(), spec.ID))
}

func networksBadSpecs(t *testing.T, s NetworksSubject) {
	other := NetworkSpec(t, "other", "10.1.2.0/24", 1024)
	peer := func(change func(*workload.WireGuardPeer)) func(*node.NetworkSpec) {
		return func(n *node.NetworkSpec) {
			p := workload.WireGuardPeer{Subnet: "10.1.3.0/24", PublicKey: other.PublicKey, AllowedIPs: []string{"10.1.3.0/24"}}
			change(&p)
			n.Peers = []workload.WireGuardPeer{p}
		}
	}
	for name, c := range map[string]struct {
		change func(*node.NetworkSpec)
		says   string
		kind   node.Kind
	}{
		"an ID that climbs":             {func(n *node.NetworkSpec) { n.ID = "../../../../etc" }, "ID", node.Invalid},
		"an ID in capitals":             {func(n *node.NetworkSpec) { n.ID = strings.ToUpper(n.ID) }, "ID", node.Invalid},
		"a label that is none":          {func(n *node.NetworkSpec) { n.Label = "x" }, "Label", node.Invalid},
		"a range that isn't private":    {func(n *node.NetworkSpec) { n.IPRange, n.Subnet = "11.1.0.0/16", "11.1.2.0/24" }, "IPRange", node.Invalid},
		"a range of another size":       {func(n *node.NetworkSpec) { n.IPRange = "10.0.0.0/8" }, "IPRange", node.Invalid},
		"IPv6 in an IPv4 field":         {func(n *node.NetworkSpec) { n.IPRange, n.Subnet = "fd00::/16", "fd00::/64" }, "IPRange", node.Invalid},
		"a subnet outside":              {func(n *node.NetworkSpec) { n.Subnet = "10.2.2.0/24" }, "Subnet", node.Invalid},
		"a subnet with bits of a host":  {func(n *node.NetworkSpec) { n.Subnet = "10.1.2.1/24" }, "Subnet", node.Invalid},
		"a subnet without room":         {func(n *node.NetworkSpec) { n.Subnet = "10.1.2.0/31" }, "Subnet", node.Invalid},
		"a privileged port":             {func(n *node.NetworkSpec) { n.ListenPort = 53 }, "ListenPort", node.Invalid},
		"a private key that is none":    {func(n *node.NetworkSpec) { n.PrivateKey = "secret" }, "private key", node.Invalid},
		"another's public key":          {func(n *node.NetworkSpec) { n.PublicKey = other.PublicKey }, "wg_public_key", node.Invalid},
		"a peer's key that is none":     {peer(func(p *workload.WireGuardPeer) { p.PublicKey = "x" }), "wg_public_key", node.Invalid},
		"a peer's range that is none":   {peer(func(p *workload.WireGuardPeer) { p.AllowedIPs = []string{"all"} }), "allowed_ips", node.Invalid},
		"an endpoint that is garbage":   {peer(func(p *workload.WireGuardPeer) { p.Endpoint = "here" }), "endpoint", node.Invalid},
		"an endpoint on the node":       {peer(func(p *workload.WireGuardPeer) { p.Endpoint = "127.0.0.1:3001" }), "endpoint", node.Refused},
		"an endpoint on the LAN":        {peer(func(p *workload.WireGuardPeer) { p.Endpoint = "192.168.1.1:3001" }), "endpoint", node.Refused},
		"an endpoint written otherwise": {peer(func(p *workload.WireGuardPeer) { p.Endpoint = "0x7f000001:3001" }), "endpoint", node.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			spec := NetworkSpec(t, "net1", "10.1.2.0/24", s.Port(t))
			c.change(&spec)
			_, err := s.Client.Create(t.Context(), spec)
			expect.Kind(t, err, c.kind)
			expect.Text(t, err, c.says)
			if err != nil && strings.Contains(err.Error(), spec.PrivateKey) && spec.PrivateKey != "secret" {
				t.Error("the error tells the private key")
			}
			list, lerr := s.Client.List(t.Context())
			expect.NoError(t, lerr)
			if len(list) != 0 {
				t.Errorf("it was made: %+v", list)
			}
		})
	}
}

func networksConflicts(t *testing.T, s NetworksSubject) {
	first, _ := s.create(t, "net1", "10.1.2.0/24")
	second := NetworkSpec(t, "net2", "10.1.2.0/24", first.ListenPort)
	_, err := s.Client.Create(t.Context(), second)
	expect.Kind(t, err, node.Refused)
	expect.Text(t, err, "wg_listen_port")
	s.one(t)
	// Two networks may use the same addresses: they never meet.
	second.ListenPort = s.Port(t)
	_, err = s.Client.Create(t.Context(), second)
	expect.NoError(t, err)
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	for _, n := range list {
		if n.Drift != "" {
			t.Errorf("%s: %s", n.Name, n.Drift)
		}
	}
	if len(list) != 2 {
		t.Errorf("there are %d networks, want 2", len(list))
	}
}

func networksJoin(t *testing.T, s NetworksSubject) {
	spec, info := s.create(t, "net1", "10.1.2.0/24")
	chosen := s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	asked := s.join(t, node.MemberSpec{Network: spec.ID, Member: "6-1", Name: "web", PID: s.Process(t), IPs: []string{"10.1.2.77", "10.1.2.78"}})
	if chosen.IPv4 != "10.1.2.2" || chosen.Gateway != info.Gateway || chosen.Gateway6 != info.Gateway6 || chosen.IPv6 == "" || chosen.PublicIPv6 != "" || chosen.Drift != "" {
		t.Errorf("chosen: %+v", chosen)
	}
	if asked.IPv4 != "10.1.2.77" || !slices.Equal(asked.IPs, []string{"10.1.2.77", "10.1.2.78"}) || asked.Name != "web" || asked.IPv6 == chosen.IPv6 {
		t.Errorf("asked for: %+v", asked)
	}
	if got := s.one(t); len(got.Members) != 2 || got.Drift != "" {
		t.Errorf("listed %+v", got)
	}
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "5-1"))
	if got := s.join(t, node.MemberSpec{Network: spec.ID, Member: "7-1", PID: s.Process(t)}); got.IPv4 != "10.1.2.2" {
		t.Errorf("an address that was given back isn't given again: %+v", got)
	}
}

func networksJoinTwice(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	one := node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)}
	first := s.join(t, one)
	if again := s.join(t, one); !reflect.DeepEqual(first, again) {
		t.Errorf("joined twice: %+v, then %+v", first, again)
	}
	one.PID = s.Process(t)
	if moved := s.join(t, one); moved.IPv4 != first.IPv4 || moved.Drift != "" {
		t.Errorf("as another process: %+v, was %+v", moved, first)
	}
	one.IPs = []string{"10.1.2.9"}
	if other := s.join(t, one); other.IPv4 != "10.1.2.9" {
		t.Errorf("with another address: %+v", other)
	}
	if got := s.one(t); len(got.Members) != 1 || got.Drift != "" {
		t.Errorf("listed %+v", got)
	}
}
