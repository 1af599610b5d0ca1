//go:build boot

package e2e_test

import (
	"maps"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestBIOS has a machine boot from a CD by BIOS, lose its power and its explorer, and come back; then each of its parts is killed. Its zdb syncs
// each write, and loses none.
func TestBIOS(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: machine.Boot{Image: s.medium("croft.iso")}, more: "zdb-sync: true\n"})
	st.tell()
	st.fits()
	st.killParts()
	st.end()
}

// TestUEFI does the same from a USB stick by UEFI, with zdb as it is by default; then a record is damaged while the machine is off.
func TestUEFI(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: machine.Boot{Image: s.medium("croft.img"), USB: true, UEFI: true}})
	st.mayLose = lastWrites
	st.tell()
	st.damage()
	st.end()
}

// story is what a node goes through.
type story struct {
	*site
	n *node
	u *tenant
	p *place
	// counts are the workloads that the node should have.
	counts map[string]int64
	// mayLose is the time before a power cut whose writes zdb may lose.
	mayLose time.Duration
}

func newStory(s *site, o options) *story {
	return &story{site: s, n: s.node("n1", "203.0.113.11", o), counts: map[string]int64{"network": 1, "volume": 1, "container": 1, "zdb": 1}}
}

// begin switches the machine on, and has a tenant's workloads run on it.
func (st *story) begin() {
	st.Helper()
	st.n.m.PowerOn()
	st.n.register()
	st.u = newTenant(st.site, st.n)
	st.p = st.u.places[0]
	st.p.answers()
}

// with are the counts of the story, with another one of a kind.
func (st *story) with(kind string, count int64) map[string]int64 {
	out := maps.Clone(st.counts)
	out[kind] = count
	return out
}

func (st *story) tell() {
	st.Helper()
	st.begin()
	st.p.note("before the power cut")
	at := st.ZDBResult(st.p.zdb)
	address := nodetest.ZDBAddress(workload.ZDBResult{IP: st.n.ip, Port: at.Port})
	expired := st.Expiring(time.Minute, func(d time.Duration) *workload.Reservation { return st.Push(st.volume(st.n, d)) })
	st.n.hand.sync()

	keptUntil := st.p.cutWhileWriting().Add(-st.mayLose)
	if st.mayLose == 0 {
		keptUntil = time.Now() // nothing for which it has answered
	}
	st.StopExplorer()
	if left := time.Until(expired.Expires()); left > 0 {
		st.Logf("the machine stays off for %s, until a reservation has ended", left.Round(time.Second))
		<-time.After(left)
	}

	began := time.Now()
	st.n.m.PowerOn()
	st.p.answers()
	st.Logf("without an explorer the container is back %s after the machine was switched on", since(began))
	st.n.agent()
	st.p.noted("before the power cut")
	st.p.kept(address, at.Namespace, keptUntil)
	runs := st.running()

	st.StartExplorer()
	for _, r := range st.p.all() {
		st.Result(r, workload.StateOK)
	}
	st.Result(expired, workload.StateExpired)
	st.n.settled(st.counts)
	if now := st.running(); now != runs {
		st.Errorf("the explorer's return has restarted the workloads: they were %s, they are %s", runs, now)
	}
	st.p.answers()
	st.p.noted("before the power cut")
}

// running names the processes of the container and of zdb, of which there is one each.
func (st *story) running() string {
	st.Helper()
	out := ""
	for _, program := range []string{"server", "zdb"} {
		p, ok := st.n.hand.the(program)
		if !ok {
			st.Errorf("%s runs as %+v, want one process", program, st.n.hand.find(program))
		}
		out += program + ": " + p.is() + "; "
	}
	return out
}

// end switches the machine off by its power button.
func (st *story) end() {
	st.Helper()
	began := time.Now()
	st.n.m.PowerButton(patience)
	st.Logf("the machine is off %s after its power button was pressed", since(began))
	st.n.untouched()
}
