package network_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
)

const testRate = 4 << 20

// rated is a network with two members, one of which has a public interface too.
type rated struct {
	*household
}

func newRated(t *testing.T, rate network.Rate) *rated {
	t.Helper()
	// Networks beside this one have other public ranges.
	public := netip.MustParsePrefix(fmt.Sprintf("2001:db8:99:%x::/64", port(t)))
	f := newFixture(t, func(c *network.Config) { c.Rate, c.Public = rate, public })
	h := &rated{household: &household{fixture: f, webPID: process(t), catPID: process(t)}}
	h.spec = conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	var err error
	if h.info, err = f.networks.Create(t.Context(), h.spec); err != nil {
		t.Fatal(err)
	}
	if h.web, err = f.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "5-1", PID: h.webPID, PublicIP6: true}); err != nil {
		t.Fatal(err)
	}
	if h.cat, err = f.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "6-1", PID: h.catPID}); err != nil {
		t.Fatal(err)
	}
	return h
}

// again opens the module anew with another rate.
func (h *rated) again(rate network.Rate) {
	h.t.Helper()
	h.cfg.Rate = rate
	h.restart()
}

// rates are those that links of a namespace are held to, by the link's name.
func (h *rated) rates(path string) map[string]uint64 {
	h.t.Helper()
	at, err := vnetns.GetFromPath(path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer at.Close()
	nl, err := netlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		h.t.Fatal(err)
	}
	defer nl.Close()
	all, err := nl.QdiscList(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, q := range all {
		tbf, is := q.(*netlink.Tbf)
		if !is {
			continue
		}
		l, err := nl.LinkByIndex(tbf.LinkIndex)
		if err != nil {
			h.t.Fatal(err)
		}
		out[l.Attrs().Name] = tbf.Rate
	}
	return out
}

// areRates fails unless each end of each way is held to its rate, or to none.
func (h *rated) areRates(want network.Rate) {
	h.t.Helper()
	for _, c := range []struct {
		path, link string
		want       uint64
	}{
		{h.info.Namespace, "m0", want.Receive},
		{h.info.Namespace, "m1", want.Receive},
		{netns.OfProcess(h.webPID), "eth0", want.Send},
		{netns.OfProcess(h.webPID), "pub0", want.Send},
		{netns.OfProcess(h.catPID), "eth0", want.Send},
		{"/proc/self/ns/net", wayTo(h.t, h.web.PublicIPv6), want.Receive},
	} {
		if got := h.rates(c.path)[c.link]; got != c.want {
			h.t.Errorf("%s of %s has a rate of %d, want %d", c.link, c.path, got, c.want)
		}
	}
	if got := h.rates(h.info.Namespace); len(got) > 2 {
		h.t.Errorf("other links of the network have rates: %v", got)
	}
}

// took is how long size bytes need from one place to an address of another.
func (h *rated) took(from, to, address string, size int64) time.Duration {
	h.t.Helper()
	var listener net.Listener
	err := netns.Do(to, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	defer listener.Close()
	began := time.Now()
	var conn net.Conn
	err = netns.Do(from, func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), time.Minute)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, size))
		sent <- firstOf(err, conn.Close())
	}()
	received, err := listener.Accept()
	if err != nil {
		h.t.Fatal(err)
	}
	defer received.Close()
	for _, one := range []net.Conn{conn, received} {
		_ = one.SetDeadline(time.Now().Add(time.Minute))
	}
	n, err := io.Copy(io.Discard, received)
	if err := firstOf(err, <-sent); err != nil || n != size {
		h.t.Fatalf("%d of %d bytes arrived: %v", n, size, err)
	}
	return time.Since(began)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRatesHold: a container sends and receives no faster than it may, from its
// network and from outside, by both families. The bounds are lower ones: a busy
// machine only takes longer.
func TestRatesHold(t *testing.T) {
	// 8 MiB need two seconds, less what may pass at once.
	const leastTime = 1500 * time.Millisecond
	for name, rate := range map[string]network.Rate{"send": {Send: testRate}, "receive": {Receive: testRate}} {
		// Not beside each other: the node's address on the other's uplink would go with that.
		t.Run(name, func(t *testing.T) {
			h := newRated(t, rate)
			h.areRates(rate)
			if drift := h.drift(); drift != "" {
				t.Errorf("drift is %q", drift)
			}
			web, cat := netns.OfProcess(h.webPID), netns.OfProcess(h.catPID)
			for _, at := range []string{h.web.IPv4, h.web.IPv6} {
				if took := h.took(cat, web, net.JoinHostPort(at, "81"), 8<<20); took < leastTime {
					t.Errorf("8 MiB to %s at 4 MiB a second took %s", at, took)
				} else {
					t.Logf("8 MiB to %s took %s", at, took)
				}
			}
			if rate.Receive == 0 {
				return
			}
			at := net.JoinHostPort(h.web.PublicIPv6, "81")
			if took := h.took("/proc/self/ns/net", web, at, 8<<20); took < leastTime {
				t.Errorf("8 MiB from outside at 4 MiB a second took %s", took)
			}
		})
	}
}

// TestNoRates: without the settings nothing of croft's is on a link.
func TestNoRates(t *testing.T) {
	h := newRated(t, network.Rate{})
	h.areRates(network.Rate{})
	run(t, h.info.Namespace, "tc qdisc add dev m0 root tbf rate 1gbit burst 256k limit 256k")
	if drift := h.drift(); drift != "" {
		t.Errorf("somebody else's rate is drift: %q", drift)
	}
	h.remade()
	if got := h.rates(h.info.Namespace); got["m0"] == 0 {
		t.Error("somebody else's rate is gone")
	}
}

// remade makes the network again and fails unless it is right then.
func (h *rated) remade() {
	h.t.Helper()
	if info, err := h.networks.Create(h.t.Context(), h.spec); err != nil || info.Drift != "" {
		h.t.Errorf("made again: %v, %s", err, info.Drift)
	}
}

// TestRatesDrift: what happens to a rate behind croft's back is seen and mended.
func TestRatesDrift(t *testing.T) {
	rate := network.Rate{Send: testRate, Receive: 2 * testRate}
	h := newRated(t, rate)
	outer := wayTo(t, h.web.PublicIPv6)
	for _, c := range []struct{ where, link, command string }{
		{h.info.Namespace, "m0", "tc qdisc del dev m0 root"},
		{h.info.Namespace, "m1", "tc qdisc replace dev m1 root tbf rate 1gbit burst 256k limit 256k"},
		{h.info.Namespace, "m1", "tc qdisc change dev m1 root handle c7f0: tbf rate 1gbit burst 256k limit 256k"},
		{h.info.Namespace, "m0", "tc qdisc replace dev m0 root handle 5: htb"},
		{netns.OfProcess(h.webPID), "eth0", "tc qdisc del dev eth0 root"},
		{netns.OfProcess(h.webPID), "pub0", "tc qdisc del dev pub0 root"},
		{"/proc/self/ns/net", outer, "tc qdisc del dev " + outer + " root"},
	} {
		run(t, c.where, c.command)
		h.drifts("link " + c.link + " isn't held to")
		h.remade()
		h.areRates(rate)
	}
	// Another kind under croft's own handle.
	run(t, h.info.Namespace, "tc qdisc del dev m0 root")
	run(t, h.info.Namespace, "tc qdisc add dev m0 root handle c7f0: htb")
	h.remade()
	h.areRates(rate)
}

// TestRatesChange: those of containers that run follow the settings after a restart,
// and stay over one that changes nothing.
func TestRatesChange(t *testing.T) {
	rate := network.Rate{Send: testRate, Receive: testRate}
	h := newRated(t, rate)
	h.again(rate)
	h.areRates(rate)
	if drift := h.drift(); drift != "" {
		t.Errorf("after a restart: %q", drift)
	}
	for _, next := range []network.Rate{{Send: 8 << 30, Receive: network.MostRate}, {Send: network.LeastRate}, {}, rate} {
		h.again(next)
		h.drifts("")
		h.remade()
		h.areRates(next)
	}
}

// TestARateTheKernelCannotHold wants an error that names the missing kernel feature.
func TestARateTheKernelCannotHold(t *testing.T) {
	err := links.CannotHold("m0", testRate, unix.ENOENT)
	if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "sch_tbf") {
		t.Errorf("%v", err)
	}
	for _, rate := range []network.Rate{{Send: network.LeastRate - 1}, {Receive: network.MostRate + 1}} {
		f := newFixture(t)
		cfg := f.cfg
		cfg.Rate = rate
		if err := cfg.Validate(); node.KindOf(err) != node.Invalid {
			t.Errorf("%+v: %v", rate, err)
		}
	}
}
