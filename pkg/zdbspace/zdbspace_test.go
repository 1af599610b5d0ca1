package zdbspace_test

import (
	"math"
	"testing"

	"github.com/croft-edge/croft/pkg/zdbspace"
)

func TestBound(t *testing.T) {
	for size, want := range map[uint64]uint64{
		0: 256 << 20, 4 << 30: 5<<30 + 256<<20, math.MaxUint64: math.MaxUint64, math.MaxUint64 / 8 * 7: math.MaxUint64,
	} {
		if got := zdbspace.Bound(size); got != want {
			t.Errorf("Bound(%d) = %d, want %d", size, got, want)
		}
	}
}
