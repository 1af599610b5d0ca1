package qemu_test

import (
	"testing"

	"github.com/croft-edge/croft/modules/vm/qemu"
)

// TestClock: the counter's rate is that of a processor, and the same each time. TestLife compares a guest's clock with this machine's.
func TestClock(t *testing.T) {
	t.Parallel()
	first, err := qemu.ClockKHz(t.Context(), qemu.TCG)
	must(t, err)
	second, err := qemu.ClockKHz(t.Context(), qemu.TCG)
	must(t, err)
	if difference := max(first, second) - min(first, second); difference > first/1000 || first < 100_000 || first > 20_000_000 {
		t.Errorf("the counter runs at %d and at %d kHz", first, second)
	}
	if khz, err := qemu.ClockKHz(t.Context(), qemu.KVM); khz != 0 || err != nil {
		t.Errorf("with KVM a guest is told %d kHz, %v", khz, err)
	}
}
