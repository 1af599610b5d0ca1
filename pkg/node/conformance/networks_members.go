package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// badMember changes a valid spec, and has the expected error.
type badMember struct {
	change func(*node.MemberSpec)
	kind   node.Kind
	says   string
}

func networksBadMembers(t *testing.T, s NetworksSubject) {
	s.badMembers(t, func(m *node.MemberSpec) { m.PID = s.Process(t) }, map[string]badMember{
		"a process that isn't there": {func(m *node.MemberSpec) { m.PID = 1 << 40 }, node.Invalid, "process"},
		"the node's own namespace":   {func(m *node.MemberSpec) { m.PID = uint64(os.Getpid()) }, node.Refused, "namespace"},
		"no namespace at all":        {func(m *node.MemberSpec) { m.PID = 0 }, node.Invalid, "neither Namespace nor PID"},
	})
}

func networksBadKept(t *testing.T, s NetworksSubject) {
	by := func(path string) func(*node.MemberSpec) {
		return func(m *node.MemberSpec) { m.Namespace = path }
	}
	const here = "/proc/thread-self/ns/"
	file := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	expect.NoError(t, os.Symlink(s.Pin(t, ""), link))
	gone := s.Pin(t, "")
	s.Unpin(t, gone)
	pid := s.Process(t)
	s.badMembers(t, func(m *node.MemberSpec) { m.Namespace = s.Pin(t, "") }, map[string]badMember{
		"a file and a process":         {func(m *node.MemberSpec) { m.PID = pid }, node.Invalid, "Namespace is \"/"},
		"a relative path":              {by("run/net"), node.Invalid, "run/net"},
		"a path that isn't there":      {by(gone), node.Invalid, gone},
		"a path with a NUL":            {by(file + "\x00"), node.Invalid, file},
		"an endless path":              {by("/" + strings.Repeat("a", 1<<20)), node.Invalid, "absolute path"},
		"an empty file":                {by(file), node.Invalid, file},
		"a folder":                     {by(filepath.Dir(file)), node.Invalid, "network namespace"},
		"a device":                     {by("/dev/zero"), node.Invalid, "/dev/zero"},
		"a link":                       {by(link), node.Invalid, link},
		"a process's":                  {by("/proc/" + strconv.FormatUint(pid, 10) + "/ns/net"), node.Invalid, "network namespace"},
		"a namespace of another kind":  {by(s.Pin(t, here+"uts")), node.Invalid, "network namespace"},
		"the node's own, kept by file": {by(s.Pin(t, here+"net")), node.Refused, "the node's"},
	})
}

// badMembers joins with specs that must be refused, those of cases and bad addresses
// and names; at gives a spec a valid namespace.
func (s NetworksSubject) badMembers(t *testing.T, at func(*node.MemberSpec), cases map[string]badMember) {
	t.Helper()
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	first, good := node.MemberSpec{Network: spec.ID, Member: "5-1"}, node.MemberSpec{Network: spec.ID, Member: "9-1"}
	at(&first)
	at(&good)
	taken := s.join(t, first)
	maps.Copy(cases, map[string]badMember{
		"outside the subnet":      {func(m *node.MemberSpec) { m.IPs = []string{"10.1.3.5"} }, node.Refused, "10.1.3.5"},
		"the gateway's":           {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.1"} }, node.Refused, "gateway"},
		"the subnet's own":        {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.0"} }, node.Refused, "10.1.2.0"},
		"the last one":            {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.255"} }, node.Refused, "10.1.2.255"},
		"another's":               {func(m *node.MemberSpec) { m.IPs = []string{taken.IPv4} }, node.Refused, taken.IPv4},
		"one good and one bad":    {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.50", taken.IPv4} }, node.Refused, taken.IPv4},
		"twice the same":          {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.5", "10.1.2.5"} }, node.Invalid, "10.1.2.5"},
		"IPv6":                    {func(m *node.MemberSpec) { m.IPs = []string{"fd00::5"} }, node.Invalid, "fd00::5"},
		"empty":                   {func(m *node.MemberSpec) { m.IPs = []string{""} }, node.Invalid, "IP"},
		"garbage":                 {func(m *node.MemberSpec) { m.IPs = []string{"10.1.2.05"} }, node.Invalid, "10.1.2.05"},
		"too many":                {func(m *node.MemberSpec) { m.IPs = make([]string, 1000) }, node.Invalid, "ips"},
		"a public address":        {func(m *node.MemberSpec) { m.PublicIP6 = true }, node.Refused, "public_ip6"},
		"a name that is no label": {func(m *node.MemberSpec) { m.Name = "a.b" }, node.Invalid, "a.b"},
		"a long name":             {func(m *node.MemberSpec) { m.Name = strings.Repeat("a", 1<<20) }, node.Invalid, "name"},
		"an ID that climbs":       {func(m *node.MemberSpec) { m.Member = "../x" }, node.Invalid, "../x"},
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := good
			c.change(&m)
			_, err := s.Client.Join(t.Context(), m)
			expect.Kind(t, err, c.kind)
			expect.Text(t, err, c.says)
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
	expect.Kind(t, err, node.NoSpace)
	expect.Text(t, err, "10.1.2.0/30")
}
