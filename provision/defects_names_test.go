package provision_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

func monthLong(r *workload.Reservation) { r.Duration = 30 * day }

// tooLong is refused by every node's policy.
func tooLong(r *workload.Reservation) { r.Duration = 3000 * day }

// A refused update that its user deleted counted as the newest accepted one: after
// a reboot the valid network wasn't restored, and its user was told "deleted".
func TestARefusedUpdateThatIsDeletedLeavesTheNetworkAlone(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, n *incarnation, nets *namedNetworks) {
		valid := w.explorer.push(w.netOf("net", monthLong))
		w.answered(valid, workload.StateOK)
		time.Sleep(time.Minute)
		refused := w.explorer.push(w.netOf("net", tooLong))
		w.answered(refused, workload.StateError)
		w.remove(refused)
		w.answered(refused, workload.StateDeleted)
		nets.reboot()
		w.restart(n)
		w.until("the network is restored", func() bool { return nets.made("net") == valid })
		time.Sleep(day)
		if w.phase(valid) != store.Deployed || w.told(valid, workload.StateDeleted) || nets.made("net") != valid {
			t.Fatalf("the network is %s, its user was told %s, on the node is %q", w.phase(valid), w.explorer, nets.made("net"))
		}
	})
}

// Behind such an update the valid network was deleted later without a decommission, and
// stayed on the node for ever.
func TestANetworkBehindARefusedUpdateIsDecommissioned(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, _ *incarnation, nets *namedNetworks) {
		valid := w.explorer.push(w.netOf("net", monthLong))
		w.answered(valid, workload.StateOK)
		time.Sleep(time.Minute)
		refused := w.explorer.push(w.netOf("net", tooLong))
		w.answered(refused, workload.StateError)
		w.remove(refused)
		w.answered(refused, workload.StateDeleted)
		w.remove(valid)
		w.answered(valid, workload.StateDeleted)
		if nets.made("net") != "" || !slices.Contains(nets.calls(), "decommission "+valid) {
			t.Fatalf("the network is still there after %v", nets.calls())
		}
	})
}

// Arriving together with a refused and deleted update, the valid network ended
// without a decommission at its next drift.
func TestANetworkThatArrivesWithItsRefusedUpdateStays(t *testing.T) {
	for name, spoil := range map[string]func(*workload.Reservation){
		"refused": tooLong,
		"valid":   monthLong, // its user deleted it before it reached the node
	} {
		t.Run(name, func(t *testing.T) {
			withNetworks(t, func(t *testing.T, w *world, n *incarnation, nets *namedNetworks) {
				w.explorer.setAway(true)
				valid := w.explorer.push(w.netOf("net", monthLong))
				time.Sleep(time.Minute)
				update := w.explorer.push(w.deleted(w.netOf("net", spoil)))
				w.explorer.setAway(false)
				w.answered(valid, workload.StateOK)
				w.answered(update, workload.StateDeleted)
				nets.reboot()
				w.until("its drift is mended", func() bool { return nets.made("net") == valid })
				time.Sleep(time.Hour)
				w.restart(n)
				time.Sleep(time.Hour)
				if w.phase(valid) != store.Deployed || nets.made("net") != valid {
					t.Fatalf("the network is %s, on the node is %q", w.phase(valid), nets.made("net"))
				}
			})
		})
	}
}

// An update signed for the future, which had to wait for a time that can judge it, got
// every valid network of its name refused for good.
func TestPostponedFutureUpdateRefusesNoOthers(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, _ *incarnation, nets *namedNetworks) {
		w.clock.set(0, false, false)
		update := w.explorer.push(w.netOf("net", func(r *workload.Reservation) { r.Created = r.Created.Add(200 * day) }))
		w.until("it waits", func() bool { rec, err := w.records.Record(update); return err == nil && rec.Phase == store.Waiting })
		valid := w.explorer.push(w.netOf("net", monthLong))
		w.answered(valid, workload.StateOK)
		w.clock.byNTP()
		w.answered(update, workload.StateError)
		time.Sleep(time.Hour)
		later := w.explorer.push(w.netOf("net", monthLong))
		w.answered(later, workload.StateOK)
		if nets.made("net") != later || w.told(valid, workload.StateError) {
			t.Fatalf("on the node is %q, want %s; told %s", nets.made("net"), later, w.explorer)
		}
	})
}

// After a reboot an update that waited for its next attempt kept the deployed network down,
// while the network's record was in phase Deployed.
func TestAnUpdateInRetryDoesNotKeepTheNetworkDown(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, n *incarnation, nets *namedNetworks) {
		valid := w.explorer.push(w.netOf("net", monthLong))
		w.answered(valid, workload.StateOK)
		time.Sleep(time.Minute)
		nets.fails("2-1", node.Errorf(node.Transient, "cannot provision: the module restarts"))
		update := w.explorer.push(w.netOf("net", monthLong))
		w.until("it is tried again", func() bool { rec, err := w.records.Record(update); return err == nil && rec.Attempts > 3 })
		nets.reboot()
		w.restart(n)
		w.until("the deployed one is restored", func() bool { return nets.made("net") == valid })
		nets.fails(update, nil)
		w.answered(update, workload.StateOK)
		if w.phase(valid) != store.Replaced || nets.made("net") != update {
			t.Fatalf("the old one is %s, on the node is %q", w.phase(valid), nets.made("net"))
		}
		w.remove(update)
		w.answered(update, workload.StateDeleted)
		w.answered(valid, workload.StateDeleted)
		if nets.made("net") != "" || count(nets.calls(), "decommission") != 1 {
			t.Fatalf("still there: %q, calls %v", nets.made("net"), nets.calls())
		}
	})
}

// An update that fails for good also counted as the newest.
func TestAnUpdateThatFailsLeavesTheNetworkBehind(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, n *incarnation, nets *namedNetworks) {
		valid := w.explorer.push(w.netOf("net", monthLong))
		w.answered(valid, workload.StateOK)
		time.Sleep(time.Minute)
		nets.fails("2-1", node.Errorf(node.Invalid, "cannot provision: the port is taken"))
		update := w.explorer.push(w.netOf("net", monthLong))
		w.answered(update, workload.StateError)
		w.remove(update)
		w.answered(update, workload.StateDeleted)
		nets.reboot()
		w.restart(n)
		// The module has it before the record is deployed.
		w.until("the valid one is restored", func() bool { return nets.made("net") == valid && w.phase(valid) == store.Deployed })
		w.until("it is counted", func() bool {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			return (<-n.engine.Counters(ctx)).Network == 1
		})
	})
}
