package saturate_test

import (
	"math"
	"testing"

	"github.com/croft-edge/croft/pkg/saturate"
)

func TestSaturate(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct{ a, b, sum, difference uint64 }{
		{0, 0, 0, 0}, {2, 1, 3, 1}, {1, 2, 3, 0},
		{most, 0, most, most}, {most, 1, most, most - 1}, {1, most, most, 0}, {most, most, most, 0}, {most - 1, 1, most, most - 2},
	} {
		if got := saturate.Add(c.a, c.b); got != c.sum {
			t.Errorf("Add(%d, %d) is %d, want %d", c.a, c.b, got, c.sum)
		}
		if got := saturate.Sub(c.a, c.b); got != c.difference {
			t.Errorf("Sub(%d, %d) is %d, want %d", c.a, c.b, got, c.difference)
		}
	}
}
