package node_test

import (
	"math"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestZDBDisk(t *testing.T) {
	for size, want := range map[uint64]uint64{
		0: 256 << 20, 4 << 30: 5<<30 + 256<<20, math.MaxUint64: math.MaxUint64, math.MaxUint64 / 8 * 7: math.MaxUint64,
	} {
		if got := node.ZDBDisk(size); got != want {
			t.Errorf("ZDBDisk(%d) = %d, want %d", size, got, want)
		}
	}
}
