package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func networksBadMembers(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	taken := s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	pid := s.Process(t)
	for name, c := range map[string]struct {
		change func(*node.MemberSpec)
		kind   node.Kind
		says   string
	}{
		"outside the subnet":         {func(m *node.MemberSpec) { m.IPs = []string{"10.1.3.5"} }, node.Refused, "10.1.3.5"},
		"the gateway's":              {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.1"} }, node.Refused, "gateway"},
		"the subnet's own":           {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.0"} }, node.Refused, "10.1.2.0"},
		"the last one":               {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.255"} }, node.Refused, "10.1.2.255"},
		"another's":                  {func(m *node.MemberSpec) { m.IPs = []string{taken.IPv4} }, node.Refused, taken.IPv4},
		"one good and one bad":       {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.50", taken.IPv4} }, node.Refused, taken.IPv4},
		"twice the same":             {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.5", "10.1.2.5"} }, node.Invalid, "10.1.2.5"},
		"IPv6":                       {func(m *node.MemberSpec) { m.IPs = []string{"fd00::5"} }, node.Invalid, "fd00::5"},
		"empty":                      {func(m *node.MemberSpec) { m.IPs = []string{""} }, node.Invalid, "IP"},
		"garbage":                    {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.05"} }, node.Invalid, "10.1.2.05"},
		"too many":                   {func(m *node.MemberSpec) { m.IPs = make([]string, 1000) }, node.Invalid, "ips"},
		"a process that isn't there": {func(m *node.MemberSpec) { m.PID = 1 << 40 }, node.Invalid, "process"},
		"the node's own namespace":   {func(m *node.MemberSpec) { m.PID = uint64(os.Getpid()) }, node.Refused, "namespace"},
		"a public address":           {func(m *node.MemberSpec) { m.PublicIP6 = true }, node.Refused, "public_ip6"},
		"a name that is no label":    {func(m *node.MemberSpec) { m.Name = "a.b" }, node.Invalid, "a.b"},
		"a long name":                {func(m *node.MemberSpec) { m.Name = strings.Repeat("a", 1<<20) }, node.Invalid, "name"},
		"an ID that climbs":          {func(m *node.MemberSpec) { m.Member = "../x" }, node.Invalid, "../x"},
	} {
		t.Run(name, func(t *testing.T) {
			m := node.MemberSpec{Network: spec.ID, Member: "9-1", PID: pid}
			c.change(&m)
			_, err := s.Client.Join(t.Context(), m)
			wantKind(t, err, c.kind)
			wantText(t, err, c.says)
			if got := s.one(t); len(got.Members) != 1 || got.Drift != "" {
				t.Errorf("it has changed the network: %+v", got)
			}
		})
	}
}

func networksFull(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/30")
	s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	_, err := s.Client.Join(t.Context(), node.MemberSpec{Network: spec.ID, Member: "6-1", PID: s.Process(t)})
	wantKind(t, err, node.NoSpace)
	wantText(t, err, "10.1.2.0/30")
}

func tapsSetup(t *testing.T, s NetworksSubject) {
	spec, info := s.create(t, "net1", "10.1.2.0/24")
	other, _ := s.create(t, "net2", "10.1.2.0/24")
	s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)})
	ask := node.TapSpec{Network: spec.ID, VM: "8-1", Name: "master", IP: "10.1.2.40"}
	tap, err := s.Taps.Setup(t.Context(), ask)
	must(t, err)
	if tap.IPv4 != "10.1.2.40" || tap.Gateway != info.Gateway || tap.Namespace != info.Namespace || tap.MAC == "" || tap.Device == "" {
		t.Errorf("made %+v", tap)
	}
	again, err := s.Taps.Setup(t.Context(), ask)
	must(t, err)
	if again != tap {
		t.Errorf("made twice: %+v, then %+v", tap, again)
	}
	second, err := s.Taps.Setup(t.Context(), node.TapSpec{Network: spec.ID, VM: "9-1"})
	must(t, err)
	if second.Device == tap.Device || second.MAC == tap.MAC || second.IPv4 == tap.IPv4 {
		t.Errorf("two VMs share: %+v and %+v", tap, second)
	}
	_, err = s.Taps.Setup(t.Context(), node.TapSpec{Network: other.ID, VM: "8-1"})
	wantKind(t, err, node.Exist)
	_, err = s.Taps.Setup(t.Context(), node.TapSpec{Network: spec.ID, VM: "10-1", IP: "10.1.2.40"})
	wantKind(t, err, node.Refused)
	wantKind(t, s.Client.Delete(t.Context(), spec.ID), node.Busy)
	s.Client, s.Taps = s.Restart(t)
	list, err := s.Taps.List(t.Context())
	must(t, err)
	if fmt.Sprint(list) != fmt.Sprint([]node.Tap{tap, second}) {
		t.Errorf("after a restart: %+v", list)
	}
	must(t, s.Taps.Remove(t.Context(), "8-1"))
	must(t, s.Taps.Remove(t.Context(), "9-1"))
	wantKind(t, s.Taps.Remove(t.Context(), "9-1"), node.NotExist)
	must(t, s.Client.Leave(t.Context(), spec.ID, "5-1"))
	must(t, s.Client.Delete(t.Context(), spec.ID))
}
