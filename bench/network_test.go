package bench

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// plugged is an internet with nodes in it.
func plugged(b *testing.B, nodes int) (*nodetest.Internet, []*nodetest.Node) {
	b.Helper()
	bins, err := nodetest.Build(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	i := nodetest.NewInternet(b, bins, "--key-rate", "0", "--address-rate", "0")
	var all []*nodetest.Node
	for k := range nodes {
		n, _ := i.PlugNode(fmt.Sprintf("n%d", k+1), fmt.Sprintf("203.0.113.%d", 11+k), "--log-level", "info", "--heartbeat", "1m", "--poll-wait", "30s")
		all = append(all, n)
	}
	return i, all
}

// empty is a reservation of a network without peers.
func empty(i *nodetest.Internet, n *nodetest.Node, k int) *workload.Reservation {
	return i.Networks(i.User, fmt.Sprintf("net%d", k), i.Part(n, "10.1.2.0/24", uint16(20000+k), ""))[0]
}

// BenchmarkNetworkCreate measures a network from push to result, and its
// deletion from push to result, one after the other on an idle node.
func BenchmarkNetworkCreate(b *testing.B) {
	const rounds = 50
	for b.Loop() {
		i, nodes := plugged(b, 1)
		var made, gone []time.Duration
		for k := range rounds {
			r := empty(i, nodes[0], k)
			began := time.Now()
			i.Push(r)
			i.Result(r, workload.StateOK)
			made = append(made, time.Since(began))
			began = time.Now()
			i.Delete(r)
			i.Result(r, workload.StateDeleted)
			gone = append(gone, time.Since(began))
		}
		slices.Sort(made)
		slices.Sort(gone)
		report(b, "network, push to result, of 50", "none: told", fmt.Sprintf("p50 %.0f ms, p99 %.0f ms", ms(quantile(made, 0.5)), ms(quantile(made, 0.99))), 0)
		report(b, "network, deletion to result, of 50", "none: told", fmt.Sprintf("p50 %.0f ms, p99 %.0f ms", ms(quantile(gone, 0.5)), ms(quantile(gone, 0.99))), 0)
	}
}

// BenchmarkNetworks200 measures memory with 200 networks on one node, and how
// much longer the 200th takes than the first.
func BenchmarkNetworks200(b *testing.B) {
	const networks = 200
	for b.Loop() {
		i, nodes := plugged(b, 1)
		n := nodes[0]
		var took []time.Duration
		for k := range networks {
			if k%50 == 0 { // one user's share of the tunnels' memory
				user, err := sign.Generate()
				if err != nil {
					b.Fatal(err)
				}
				i.User = user
			}
			r := empty(i, n, k)
			began := time.Now()
			i.Push(r)
			i.Result(r, workload.StateOK)
			took = append(took, time.Since(began))
		}
		agent, carrier := anonymous(b, n.PID()), anonymous(b, n.Carrier())
		report(b, "agent memory, 200 networks (RssAnon)", "<= 80 MB", fmt.Sprintf("%.1f MB", agent), agent/80)
		report(b, "wg carrier memory, 200 networks (RssAnon)", "<= 30 MB a carrier", fmt.Sprintf("%.1f MB", carrier), carrier/30)
		first, last := middle(took[1:11]), middle(took[networks-10:])
		report(b, "the 200th network against the first ones", "none: told", fmt.Sprintf("%.0f ms against %.0f ms", ms(last), ms(first)), float64(last)/float64(first))
		cpu := cpuSeconds(b, n.PID())
		time.Sleep(30 * time.Second)
		idle := (cpuSeconds(b, n.PID()) - cpu) / 30 * 100
		report(b, fmt.Sprintf("agent, idle with %d networks", networks), "<= 1 % of a core", fmt.Sprintf("%.2f %%", idle), idle)
	}
}

func middle(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// cpuSeconds is a process's processor time so far.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		b.Fatal(err)
	}
	t, err := p.Times()
	if err != nil {
		b.Fatal(err)
	}
	return t.User + t.System
}

// BenchmarkNetworkThroughput measures one TCP stream, member to member on one
// bridge and through a tunnel between two nodes, against a bare veth.
func BenchmarkNetworkThroughput(b *testing.B) {
	for b.Loop() {
		i, nodes := plugged(b, 2)
		parts := []*nodetest.Part{
			i.Part(nodes[0], "10.1.1.0/24", 3001, "203.0.113.11:3001"), i.Part(nodes[1], "10.1.2.0/24", 3002, "203.0.113.12:3002"),
		}
		for _, r := range i.Networks(i.User, "net1", parts...) {
			i.Result(i.Push(r), workload.StateOK)
		}
		id := nodetest.NetworkID(i.User, "net1")
		one := nodes[0].Join(node.MemberSpec{Network: id, Member: "5-1"})
		two := nodes[0].Join(node.MemberSpec{Network: id, Member: "6-1"})
		far := nodes[1].Join(node.MemberSpec{Network: id, Member: "7-1"})
		far.Echo(80)
		i.Until(30*time.Second, "the tunnel is up", func() bool { return one.Reaches(far.IPv4+":80", 5*time.Second) == nil })

		a, c := i.Lab.Namespace("bare-a"), i.Lab.Namespace("bare-b")
		i.Lab.Veth(a, "eth0", c, "eth0")
		a.Addr("eth0", "192.0.2.1/24")
		c.Addr("eth0", "192.0.2.2/24")

		bare := throughput(b, a.Path(), c.Path(), "192.0.2.2")
		bridge := throughput(b, one.Path(), two.Path(), two.IPv4)
		idle := anonymous(b, nodes[0].Carrier())
		tunnel := throughput(b, one.Path(), far.Path(), far.IPv4)
		busy := anonymous(b, nodes[0].Carrier())
		report(b, "TCP on one bridge against a bare veth", "none: told", fmt.Sprintf("%.2f of %.2f Gbit/s", bridge, bare), bridge/bare)
		report(b, "TCP through WireGuard against a bare veth", "none: told", fmt.Sprintf("%.2f of %.2f Gbit/s", tunnel, bare), tunnel/bare)
		b.Logf("the carrier's memory (RssAnon): %.1f MB before, %.1f MB after", idle, busy)
	}
}

// throughput is the rate of one TCP stream between two namespaces during five seconds, in Gbit/s, after
// a second of warm-up.
func throughput(b *testing.B, from, to, address string) float64 {
	b.Helper()
	var listener net.Listener
	err := netns.Do(to, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	var got atomic.Int64
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 256<<10)
		for {
			n, err := conn.Read(buffer)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	var conn net.Conn
	err = netns.Do(from, func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), 10*time.Second)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(conn, zeros{}) }()
	time.Sleep(time.Second)
	before, began := got.Load(), time.Now()
	time.Sleep(5 * time.Second)
	return float64(got.Load()-before) * 8 / time.Since(began).Seconds() / 1e9
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
