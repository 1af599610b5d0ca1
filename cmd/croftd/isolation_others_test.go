package main_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// othersTables are rules of another program in the node's namespace.
const othersTables = `
table inet others {
	counter seen { }
	set bad { type ipv4_addr; elements = { 192.0.2.66 }; }
	chain prerouting { type filter hook prerouting priority -350; counter name "seen"; ip saddr @bad drop; };
}
table ip nat { chain postrouting { type nat hook postrouting priority 110; oifname "nowhere" masquerade; }; }
table inet croft-0000 { chain input { type filter hook input priority 10; iifname "cr0000u0" drop; }; }
`

// others are the foreign tables as nft lists them, with their handles.
func others(t *testing.T, ns *netlab.Namespace) (rules string, seen int) {
	t.Helper()
	for _, table := range []string{"inet others", "ip nat", "inet croft-0000"} {
		rules += ns.Run("nft", append([]string{"-s", "-a", "list", "table"}, strings.Fields(table)...)...)
	}
	counters := ns.Run("nft", "list", "counters", "table", "inet", "others")
	seen, err := strconv.Atoi(regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(counters)[1])
	if err != nil {
		t.Fatal(err)
	}
	return rules, seen
}

func TestOthersRulesAreLeftAlone(t *testing.T) {
	i := newInternet(t)
	n, ns := i.node("n1", "203.0.113.11")
	file := i.Path("others.nft")
	if err := os.WriteFile(file, []byte(othersTables), 0o600); err != nil {
		t.Fatal(err)
	}
	ns.Run("nft", "-f", file)
	want, seen := others(t, ns)
	same := func(when string) {
		t.Helper()
		now, count := others(t, ns)
		if now != want {
			t.Errorf("%s others' rules are\n%s, were\n%s", when, now, want)
		}
		if count < seen {
			t.Errorf("%s others' counter is %d, was %d", when, count, seen)
		}
		seen = count
	}
	croft := func() string {
		for line := range strings.Lines(ns.Run("nft", "list", "tables")) {
			if name := strings.Fields(line)[2]; strings.HasPrefix(name, "croft-") && name != "croft-0000" {
				return name
			}
		}
		return ""
	}

	part := i.Part(n, "10.1.2.0/24", 3001, "")
	first := i.Push(i.Networks(i.User, "net1", part)[0])
	i.Result(first, workload.StateOK)
	same("after a network was made")
	id := nodetest.NetworkID(i.User, "net1")
	n.Join(node.MemberSpec{Network: id, Member: "5-1"})
	same("after a member joined")
	part.Port = 3002
	second := i.Push(i.Networks(i.User, "net1", part)[0])
	i.Result(second, workload.StateOK)
	same("after an update")

	table := croft()
	ns.Run("nft", "flush", "table", "inet", table)
	i.Until(30*time.Second, "the rules are back", func() bool {
		return strings.Contains(ns.Run("nft", "list", "table", "inet", table), "masquerade")
	})
	same("after croft's table was flushed")
	ns.Run("nft", "delete", "table", "inet", table)
	i.Until(30*time.Second, "the table is back", func() bool { return croft() == table })
	same("after croft's table was deleted")

	networks, _ := n.Modules()
	if err := networks.Leave(t.Context(), id, "5-1"); err != nil {
		t.Fatal(err)
	}
	i.Delete(second)
	i.Result(second, workload.StateDeleted)
	same("after the network was deleted")
	n.Stop()
	n.Croftd("network", "down")
	same("after croft's networks were taken down")
	if left := croft(); left != "" {
		t.Errorf("table %s stays", left)
	}
	if forwards(ns) {
		t.Error("the machine forwards, and didn't before")
	}
}

// forwards reports whether a machine forwards packets, in either family.
func forwards(ns *netlab.Namespace) bool {
	return strings.Contains(ns.Run("sysctl", "-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"), "1")
}

// A machine that forwards packets for others before croft starts goes on doing so.
func TestARouterStaysOne(t *testing.T) {
	i := newInternet(t)
	p := newProbes(t)
	n, ns := i.Plug("n1", "203.0.113.11")
	ns.Forward()
	lan, out := i.Lab.Namespace("lan"), i.Host("out", "203.0.113.80")
	i.Lab.Veth(ns, "lan0", lan, "eth0")
	ns.Addr("lan0", "192.168.77.2/24")
	lan.Addr("eth0", "192.168.77.9/24")
	lan.Route("0.0.0.0/0", "192.168.77.2")
	out.Route("192.168.77.0/24", "203.0.113.11")
	p.serve(lan.Path(), "lan", plainPort)
	p.serve(out.Path(), "out", plainPort)
	n.Start()
	n.WaitReady()
	n.WaitRegistered()
	routed := func(when string) {
		t.Helper()
		for from, f := range map[string]flow{
			"out": {from: out.Path(), to: "192.168.77.9", kind: "tcp", port: plainPort},
			"lan": {from: lan.Path(), to: "203.0.113.80", kind: "tcp", port: plainPort},
		} {
			if ok, _ := p.try(f, patience); !ok {
				t.Errorf("%s %s isn't let through", when, from)
			}
		}
	}
	routed("before a network")
	r := i.Push(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0])
	i.Result(r, workload.StateOK)
	routed("beside a network")
	ns.Run("sysctl", "-q", "net.ipv4.ip_forward=0")
	i.Until(30*time.Second, "the node forwards again", func() bool {
		return strings.HasPrefix(ns.Run("sysctl", "-n", "net.ipv4.ip_forward"), "1")
	})
	if ok, _ := p.try(flow{from: out.Path(), to: "192.168.77.9", kind: "tcp", port: plainPort}, quiet); ok {
		t.Error("what somebody has switched off is on again for all, not for tenants only")
	}
	n.Stop()
	n.Croftd("network", "down")
}
