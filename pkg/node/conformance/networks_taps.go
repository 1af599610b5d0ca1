package conformance

import (
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

func tapsSetup(t *testing.T, s NetworksSubject) {
	spec, info := s.create(t, "net1", "10.1.2.0/24")
	other, _ := s.create(t, "net2", "10.1.2.0/24")
	s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	ask := node.TapSpec{Network: spec.ID, VM: "8-1", Name: "master", IP: "10.1.2.40"}
	tap, err := s.Taps.Setup(t.Context(), ask)
	expect.NoError(t, err)
	if tap.IPv4 != "10.1.2.40" || tap.Name != "master" || tap.Hash != "" || tap.Drift != "" || tap.Gateway != info.Gateway || tap.Namespace != info.Namespace || tap.MAC == "" || tap.Device == "" {
		t.Errorf("made %+v", tap)
	}
	again, err := s.Taps.Setup(t.Context(), ask)
	expect.NoError(t, err)
	if again != tap {
		t.Errorf("made twice: %+v, then %+v", tap, again)
	}
	second, err := s.Taps.Setup(t.Context(), node.TapSpec{Network: spec.ID, VM: "9-1"})
	expect.NoError(t, err)
	if second.Device == tap.Device || second.MAC == tap.MAC || second.IPv4 == tap.IPv4 {
		t.Errorf("two VMs share: %+v and %+v", tap, second)
	}
	_, err = s.Taps.Setup(t.Context(), node.TapSpec{Network: other.ID, VM: "8-1"})
	expect.Kind(t, err, node.Exist)
	_, err = s.Taps.Setup(t.Context(), node.TapSpec{Network: spec.ID, VM: "10-1", IP: "10.1.2.40"})
	expect.Kind(t, err, node.Refused)
	expect.Kind(t, s.Client.Delete(t.Context(), spec.ID), node.Busy)
	s.Client, s.Taps = s.Restart(t)
	list, err := s.Taps.List(t.Context())
	expect.NoError(t, err)
	if !slices.Equal(list, []node.Tap{tap, second}) {
		t.Errorf("after a restart: %+v, want %+v", list, []node.Tap{tap, second})
	}
	if got, err := s.Client.List(t.Context()); err != nil || !slices.ContainsFunc(got, func(n node.NetworkInfo) bool {
		return n.ID == spec.ID && n.Drift == "" && slices.ContainsFunc(n.Members, func(m node.Member) bool {
			return m.Member == "8-1" && m.Name == "master" && m.IPv4 == tap.IPv4 && m.IPv6 == tap.IPv6 && m.Drift == ""
		})
	}) {
		t.Errorf("the VM isn't a member: %+v, %v", got, err)
	}
	expect.NoError(t, s.Taps.Remove(t.Context(), "8-1"))
	expect.NoError(t, s.Taps.Remove(t.Context(), "9-1"))
	expect.Kind(t, s.Taps.Remove(t.Context(), "9-1"), node.NotExist)
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "5-1"))
	expect.NoError(t, s.Client.Delete(t.Context(), spec.ID))
}

// wantTap fails unless the only tap is that one, in the module and after its restart.
func (s *NetworksSubject) wantTap(t *testing.T, want node.Tap) {
	t.Helper()
	for _, when := range []string{"now", "after a restart"} {
		list, err := s.Taps.List(t.Context())
		expect.NoError(t, err)
		if len(list) != 1 || list[0] != want {
			t.Errorf("%s there are %+v, want only %+v", when, list, want)
		}
		s.Client, s.Taps = s.Restart(t)
	}
	if got := s.one(t); got.Drift != "" || len(got.Members) != 1 || got.Members[0].Hash != want.Hash {
		t.Errorf("the network is %+v", got)
	}
}

// setup makes a tap that must be accepted.
func (s *NetworksSubject) setup(t *testing.T, spec node.TapSpec) node.Tap {
	t.Helper()
	tap, err := s.Taps.Setup(t.Context(), spec)
	expect.NoError(t, err)
	return tap
}

func tapsAnotherHash(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	ask := node.TapSpec{Network: spec.ID, VM: "8-1", Name: "master", Hash: expect.OneHash}
	tap := s.setup(t, ask)
	if tap.Hash != expect.OneHash {
		t.Errorf("made %+v", tap)
	}
	theirs := ask
	theirs.Name, theirs.IP = "theirs", "10.1.2.99"
	for range 2 { // the second time after a restart
		for _, hash := range []string{expect.AnotherHash, ""} {
			for _, adopt := range []bool{false, true} {
				theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
				_, err := s.Taps.Setup(t.Context(), theirs)
				expect.Kind(t, err, node.Exist)
				expect.Text(t, err, "8-1", "isn't this reservation's")
			}
		}
		s.wantTap(t, tap)
	}
	if again := s.setup(t, ask); again != tap {
		t.Errorf("made again it is %+v, was %+v", again, tap)
	}
	// A tap isn't left as a member is, nor is a member's place another's tap.
	expect.Kind(t, s.Client.Leave(t.Context(), spec.ID, "8-1"), node.NotExist)
	_, err := s.Client.Join(t.Context(), node.MemberSpec{Network: spec.ID, Member: "8-1", PID: s.Process(t), Hash: expect.AnotherHash})
	expect.Kind(t, err, node.Exist)
	s.wantTap(t, tap)
	// Its place and its address are free once it is removed.
	expect.NoError(t, s.Taps.Remove(t.Context(), "8-1"))
	theirs.Hash, theirs.IP = expect.AnotherHash, tap.IPv4
	if next := s.setup(t, theirs); next.Hash != expect.AnotherHash || next.IPv4 != tap.IPv4 {
		t.Errorf("the next one is %+v", next)
	}
}

func tapsUnlabelled(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	ask := node.TapSpec{Network: spec.ID, VM: "8-1"}
	tap := s.setup(t, ask)
	ask.Hash = expect.OneHash
	_, err := s.Taps.Setup(t.Context(), ask)
	expect.Kind(t, err, node.Exist)
	s.wantTap(t, tap)
	ask.AdoptUnlabelled = true
	tap.Hash = expect.OneHash
	if adopted := s.setup(t, ask); adopted != tap {
		t.Errorf("adopted as %+v, want %+v", adopted, tap)
	}
	s.wantTap(t, tap)
	ask.Hash = expect.AnotherHash
	_, err = s.Taps.Setup(t.Context(), ask)
	expect.Kind(t, err, node.Exist)
}

func tapsChange(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	ask := node.TapSpec{Network: spec.ID, VM: "8-1", Name: "master", IP: "10.1.2.40", Hash: expect.OneHash}
	tap := s.setup(t, ask)
	ask.Name, ask.IP = "slave", ""
	named := s.setup(t, ask)
	if tap.Name = "slave"; named != tap {
		t.Errorf("with another name and any address: %+v, want %+v", named, tap)
	}
	ask.IP = "10.1.2.41"
	moved := s.setup(t, ask)
	if moved.IPv4 != "10.1.2.41" || moved.IPv6 == tap.IPv6 || moved.MAC == tap.MAC || moved.Device != tap.Device {
		t.Errorf("with another address: %+v, was %+v", moved, tap)
	}
	s.wantTap(t, moved)
	ask.IP = "10.1.2.40"
	if back := s.setup(t, ask); back != tap {
		t.Errorf("back at its address: %+v, was %+v", back, tap)
	}
	s.wantTap(t, tap)
}

func tapsMend(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	ask := node.TapSpec{Network: spec.ID, VM: "8-1", Name: "master", Hash: expect.OneHash}
	tap := s.setup(t, ask)
	s.Break(t, tap)
	list, err := s.Taps.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Drift == "" {
		t.Fatalf("its device is gone: %+v", list)
	}
	if list[0].Drift = ""; list[0] != tap {
		t.Errorf("without its device it is %+v, was %+v", list[0], tap)
	}
	theirs := ask
	theirs.Hash = expect.AnotherHash
	_, err = s.Taps.Setup(t.Context(), theirs)
	expect.Kind(t, err, node.Exist)
	if list, err = s.Taps.List(t.Context()); err != nil || len(list) != 1 || list[0].Drift == "" {
		t.Errorf("another reservation has mended it: %+v, %v", list, err)
	}
	if mended := s.setup(t, ask); mended != tap {
		t.Errorf("mended it is %+v, was %+v", mended, tap)
	}
	s.wantTap(t, tap)
	// What is gone can be removed, too.
	s.Break(t, tap)
	expect.NoError(t, s.Taps.Remove(t.Context(), "8-1"))
	expect.Kind(t, s.Taps.Remove(t.Context(), "8-1"), node.NotExist)
	expect.NoError(t, s.Client.Delete(t.Context(), spec.ID))
}

func tapsBad(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	tap := s.setup(t, node.TapSpec{Network: spec.ID, VM: "8-1"})
	for name, c := range map[string]struct {
		change func(*node.TapSpec)
		kind   node.Kind
		says   string
	}{
		"a network that isn't there": {func(p *node.TapSpec) { p.Network = "none" }, node.NotExist, "none"},
		"a hash that is none":        {func(p *node.TapSpec) { p.Hash = "no hash" }, node.Invalid, "Hash"},
		"an ID that climbs":          {func(p *node.TapSpec) { p.VM = "../8-1" }, node.Invalid, "ID"},
		"a name that is no label":    {func(p *node.TapSpec) { p.Name = "a.b" }, node.Invalid, "a.b"},
		"another's address":          {func(p *node.TapSpec) { p.IP = tap.IPv4 }, node.Refused, tap.IPv4},
		"the gateway's":              {func(p *node.TapSpec) { p.IP = "10.1.2.1" }, node.Refused, "gateway"},
		"outside the subnet":         {func(p *node.TapSpec) { p.IP = "10.1.3.5" }, node.Refused, "10.1.3.5"},
		"IPv6":                       {func(p *node.TapSpec) { p.IP = "fd00::5" }, node.Invalid, "fd00::5"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := node.TapSpec{Network: spec.ID, VM: "9-1"}
			c.change(&ask)
			_, err := s.Taps.Setup(t.Context(), ask)
			expect.Kind(t, err, c.kind)
			expect.Text(t, err, c.says)
			list, err := s.Taps.List(t.Context())
			expect.NoError(t, err)
			if len(list) != 1 || list[0] != tap {
				t.Errorf("there are %+v", list)
			}
		})
	}
}
