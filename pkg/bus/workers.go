package bus

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/threefoldtech/zbus"
)

// workers are the states of a server's workers.
type workers struct {
	mu     sync.Mutex
	states []zbus.WorkerStatus
}

// reset makes n free workers.
func (w *workers) reset(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = make([]zbus.WorkerStatus, n)
	for i := range w.states {
		w.states[i] = zbus.WorkerStatus{State: zbus.WorkerFree, StartTime: time.Now()}
	}
}

func (w *workers) set(worker int, state zbus.WorkerState, action string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A call that outlived its Run may belong to an earlier list.
	if worker < len(w.states) {
		w.states[worker] = zbus.WorkerStatus{State: state, StartTime: time.Now(), Action: action}
	}
}

func (w *workers) list() []zbus.WorkerStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.states)
}

// busy names the calls that the workers run.
func (w *workers) busy() []string {
	var actions []string
	for _, one := range w.list() {
		if one.State == zbus.WorkerBusy {
			actions = append(actions, fmt.Sprintf("%s since %s", one.Action, time.Since(one.StartTime).Round(time.Millisecond)))
		}
	}
	return actions
}
