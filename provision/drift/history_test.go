package drift

import (
	"strconv"
	"testing"
)

// The remembered ends are swept ever more seldom the more there are: the engine's
// thread notes one for each effect.
func TestEndsAreSeldomLookedThrough(t *testing.T) {
	const doublings = 3
	d := NewHistory()
	looked, at := 0, d.sweepAt
	for i := range endsMost << doublings {
		if d.EffectEnded(strconv.Itoa(i)); d.sweepAt != at {
			looked, at = looked+1, d.sweepAt
		}
	}
	if looked > doublings {
		t.Errorf("%d ends were looked through %d times, want %d at most", endsMost<<doublings, looked, doublings)
	}
}
