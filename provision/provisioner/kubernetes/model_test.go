package kubernetes_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/kubernetes"
)

// changing are the modules' methods that a provisioner calls.
var changing = []string{"VMs.Run", "VMs.Delete", "VDisks.Allocate", "VDisks.Deallocate", "Taps.Setup", "Taps.Remove"}

// TestNoDataIsLost runs two reservations of one ID through orders, failures, lost answers and reboots. Whatever happens, a
// disk goes only by an order to take its own reservation down, a failed attempt leaves no more than it found, and neither
// reservation touches the other's parts.
func TestNoDataIsLost(t *testing.T) {
	w := newWorld(t)
	m := &model{w: w, p: w.provisioner()}
	for _, ip := range []string{"10.1.1.9", "10.1.1.10"} {
		r := w.reservation("8-1", w.data(`"10.1.1.9"`, `"`+ip+`"`))
		m.all = append(m.all, r)
		m.hashes = append(m.hashes, hashOf(t, r))
	}
	rapid.Check(t, func(rt *rapid.T) {
		w.Mend()
		w.Forget()
		m.reboot(rt)
		if _, err := (fakenode.VDisks{Storage: w.Storage}).Inspect("8-1"); err == nil {
			must(t, fakenode.VDisks{Storage: w.Storage}.Deallocate("8-1"))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"provision": m.provision, "provision again": m.provision, "stop": m.stop, "decommission": m.decommission, "remove": m.remove,
			"fail": m.fail, "lose": m.lose, "reboot": m.reboot, "crash": func(*rapid.T) { w.VMs.Crash("8-1") },
		})
	})
}

type model struct {
	w      *world
	p      *kubernetes.Provisioner
	all    []*workload.Reservation
	hashes []string
}

// draw draws one of the reservations.
func (m *model) draw(t *rapid.T) (r *workload.Reservation, mine string) {
	i := rapid.IntRange(0, len(m.all)-1).Draw(t, "reservation")
	return m.all[i], m.hashes[i]
}

// order carries out an order of one reservation. ends says whether it may take the disk's data.
func (m *model) order(t *rapid.T, mine string, ends bool, do func() error) error {
	before, kept := m.w.parts(), m.w.kept("8-1")
	err := do()
	after := m.w.parts()
	for part, hash := range before {
		if hash != mine && after[part] != hash {
			t.Fatalf("another's %s is %q now, was %q", part, after[part], hash)
		}
	}
	if kept && !m.w.kept("8-1") && (!ends || before["disk 8-1"] != mine) {
		t.Fatalf("the disk's data is lost (%v): before %v, after %v", err, before, after)
	}
	return err
}

func (m *model) provision(t *rapid.T) {
	r, mine := m.draw(t)
	before := m.w.parts()
	err := m.order(t, mine, false, func() error { _, err := m.p.Provision(t.Context(), r); return err })
	after := m.w.parts()
	if err == nil {
		if want := map[string]string{"VM 8-1": mine, "disk 8-1": mine, "tap 8-1": mine}; !maps.Equal(after, want) {
			t.Fatalf("provisioned, the node has %v", after)
		}
		m.w.write("8-1")
		return
	}
	for part := range after {
		if _, was := before[part]; !was && node.KindOf(err) != node.Unknown {
			t.Fatalf("the failed attempt (%v) leaves %s: before %v, after %v", err, part, before, after)
		}
	}
	if _, vm := after["VM 8-1"]; vm {
		if _, disk := after["disk 8-1"]; !disk {
			t.Fatalf("a VM has no disk: before %v, after %v", before, after)
		}
	}
}

func (m *model) stop(t *rapid.T) {
	r, mine := m.draw(t)
	if err := m.order(t, mine, false, func() error { return m.p.Stop(t.Context(), r) }); err == nil && m.w.parts()["VM 8-1"] == mine {
		t.Fatal("it isn't stopped")
	}
}

func (m *model) decommission(t *rapid.T) {
	r, mine := m.draw(t)
	m.gone(t, mine, m.order(t, mine, true, func() error { return m.p.Decommission(t.Context(), r) }))
}

func (m *model) remove(t *rapid.T) {
	_, mine := m.draw(t)
	m.gone(t, mine, m.order(t, mine, true, func() error { return m.p.Remove(t.Context(), provisioner.LabelOf("8-1", mine)) }))
}

func (m *model) gone(t *rapid.T, mine string, err error) {
	for part, hash := range m.w.parts() {
		if err == nil && hash == mine {
			t.Fatalf("%s is left", part)
		}
	}
}

func (m *model) fail(t *rapid.T) {
	kind := rapid.SampledFrom([]node.Kind{node.Transient, node.Busy, node.NoSpace, node.Internal, node.Unknown}).Draw(t, "kind")
	m.w.FailNext(rapid.SampledFrom(changing).Draw(t, "method"), rapid.IntRange(1, 2).Draw(t, "times"), node.Errorf(kind, "cannot do it"))
}

func (m *model) lose(t *rapid.T) {
	m.w.LoseNext(rapid.SampledFrom(changing).Draw(t, "method"), node.Errorf(node.Unknown, "no answer came"))
}

// reboot ends VMs and removes taps: disks are all that stays.
func (m *model) reboot(*rapid.T) {
	m.w.VMs.Reboot()
	taps := fakenode.Taps{Networks: m.w.Networks}
	for _, tap := range m.w.taps() {
		for range 5 { // injected failures are used up
			if kind := node.KindOf(taps.Remove(tap.VM)); kind == "" || kind == node.NotExist {
				break
			}
		}
	}
}
