package limit

import "testing"

func TestCountsOfAnotherProcess(t *testing.T) {
	var other Elsewhere
	for i, step := range []struct {
		times map[string]uint64
		want  uint64
	}{
		{map[string]uint64{"elsewhere": 3}, 3},
		{map[string]uint64{"elsewhere": 3}, 3},
		{nil, 3}, // it didn't answer
		{map[string]uint64{"elsewhere": 5}, 5},
		{map[string]uint64{"elsewhere": 2}, 7}, // it was started again
		{map[string]uint64{}, 7},
		{map[string]uint64{"elsewhere": 1}, 8},
	} {
		other.Seen(step.times)
		if got := Times()["elsewhere"]; got != step.want {
			t.Errorf("step %d: %d are counted, want %d", i, got, step.want)
		}
	}
}
