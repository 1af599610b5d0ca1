package provision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// orderedBoard adds what it is shown to an order of calls.
type orderedBoard struct {
	*brokenBoard
	order *callOrder
}

func (b orderedBoard) Workloads(shown []work.WorkloadSpec, gone []string) {
	b.order.add(fmt.Sprintf("board %d %d", len(shown), len(gone)))
	b.brokenBoard.Workloads(shown, gone)
}

// TestNothingIsDoneBeforeAllIsKnown: after a start the board has all workloads, and the word that these are all, before the engine
// does anything with one of them, or with a new one.
func TestNothingIsDoneBeforeAllIsKnown(t *testing.T) {
	order := &callOrder{}
	networks := &fakeProvisioner{order: order}
	inWorld(t, func(w *world) {
		w.board = orderedBoard{newBrokenBoard(), order}
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: networks}
	}, func(t *testing.T, w *world, n *incarnation) {
		const networksThere = 30
		var all []string
		for i := range networksThere {
			all = append(all, w.explorer.push(w.netOf(fmt.Sprintf("net%d", i), yearLong)))
		}
		for _, id := range all {
			w.answered(id, workload.StateOK)
		}
		n.stop(t)
		before := len(order.all())
		for _, id := range all[:networksThere/2] {
			w.remove(id)
		}
		fresh := w.explorer.push(w.netOf("fresh", yearLong))
		if err := w.records.Close(); err != nil {
			t.Fatal(err)
		}
		w.records = openStore(t, w.dir)
		*n = *w.start(newStepper(""))
		for _, id := range all[:networksThere/2] {
			w.answered(id, workload.StateDeleted)
		}
		w.answered(fresh, workload.StateOK)
		time.Sleep(time.Minute)
		known, done := false, 0
		for _, call := range order.all()[before:] {
			switch {
			case call == "board 0 0":
				known = true
			case strings.HasPrefix(call, "board "):
			case known:
				done++
			default:
				t.Errorf("%s comes before all are known", call)
			}
		}
		if !known || done < networksThere/2+1 {
			t.Errorf("all are known: %t; then %d things are done", known, done)
		}
	})
}
