package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// backUntold measures from when somebody changes a thing under the node, of which nobody tells, until it is as it should be: the
// peers of three networks, the quotas of three volumes and the settings of three other networks, each once, in three rounds with one of each kind.
func backUntold(b *testing.B, i *nodetest.Internet, n *nodetest.Node) {
	b.Helper()
	const rounds, apart = 3, 7 * time.Second
	var all []time.Duration
	kinds := map[string][]time.Duration{}
	for k := range rounds {
		name, plain := fmt.Sprintf("peered%d", k), fmt.Sprintf("plain%d", k)
		own, laptop := i.Part(n, "10.1.2.0/24", uint16(21000+k), ""), i.Part(nil, "10.1.9.0/24", 0, "")
		volume := i.Reserve(n, time.Hour)
		for _, r := range []*workload.Reservation{
			volume, i.Push(i.Networks(i.User, name, own, laptop)[0]), i.Push(i.Networks(i.User, plain, i.Part(n, "10.1.2.0/24", uint16(22000+k), ""))[0]),
		} {
			i.Result(r, workload.StateOK)
		}
		things := []nodetest.Untold{
			nodetest.UntoldPeer(n, nodetest.NetworkID(i.User, name), own, laptop), nodetest.UntoldQuota(n, volume), nodetest.UntoldSetting(n, nodetest.NetworkID(i.User, plain)),
		}
		time.Sleep(time.Second + time.Duration(k)*apart) // at another time between two looks in each round
		for j, took := range i.BackFrom(2*time.Minute, things...) {
			b.Logf("%s: back after %s", things[j].What, took.Round(10*time.Millisecond))
			all = append(all, took)
			kinds[things[j].What] = append(kinds[things[j].What], took)
		}
	}
	slices.Sort(all)
	longest := func(what string) float64 { return slices.Max(kinds[what]).Seconds() }
	p95 := quantile(all, 0.95)
	report(b, fmt.Sprintf("gone under the node to back, the rest, p95 of %d", len(all)), "<= 30 s",
		fmt.Sprintf("%.1f s (p50 %.1f s; at most %.1f s a peer, %.1f s a quota, %.1f s a sysctl)", p95.Seconds(), quantile(all, 0.5).Seconds(),
			longest("a WireGuard peer"), longest("a volume's quota"), longest("a sysctl of a network's namespace")), p95.Seconds()/30)
}
