package bench

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The maximum load of an otherwise idle machine's processors, as a share of all: before any process is
// started, and while the honest user is alone.
const (
	idleBefore = 0.10
	idleQuiet  = 0.40
	lookFor    = 5 * time.Second
)

// machine detects other load on the machine. It measures before there is a node, and while the honest
// user is alone: under attack the attackers keep the processors busy.
type machine struct {
	before, alone float64
}

func lookAtMachine() *machine {
	m := &machine{}
	m.before = busyShare(func() { time.Sleep(lookFor) })
	return m
}

func (m *machine) quiet(do func()) { m.alone = busyShare(do) }

func (m *machine) idle() bool { return m.before <= idleBefore && m.alone <= idleQuiet }

// String is the printed verdict.
func (m *machine) String() string {
	verdict := "idle otherwise: how long requests took is judged"
	if !m.idle() {
		verdict = "busy with something else: how long requests took is not judged"
	}
	return fmt.Sprintf("processors busy: %.0f %% before (at most %.0f %%), %.0f %% while it was quiet (at most %.0f %%): %s",
		100*m.before, 100*idleBefore, 100*m.alone, 100*idleQuiet, verdict)
}

// busyShare is the share of processor time that was used while do ran; 1, which counts as not idle,
// when it can't be read.
func busyShare(do func()) float64 {
	busy, total := processorTimes()
	do()
	busyAfter, totalAfter := processorTimes()
	if totalAfter <= total {
		return 1
	}
	return float64(busyAfter-busy) / float64(totalAfter-total)
}

// processorTimes are the ticks since boot of all processors: busy ones and total.
func processorTimes() (busy, total uint64) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	// user nice system idle iowait irq softirq steal; guest time is included in user's.
	for k, field := range strings.Fields(line)[1:] {
		var n uint64
		if _, err := fmt.Sscan(field, &n); err != nil || k > 7 {
			break
		}
		total += n
		if k != 3 && k != 4 {
			busy += n
		}
	}
	return busy, total
}
