//go:build boot

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Budgets, where the processor is emulated.
const (
	mostBoot   = 20 * time.Second
	mostImage  = 120e6 // bytes, as make image makes it without LEVEL
	mostMemory = 256   // MiB
	quiet      = 2 * time.Minute
)

// TestBudgets measures the image, its boot, and the memory of a node without workloads. The time of a boot is printed only: it is that of the
// machine that emulates it, and of what else runs there.
func TestBudgets(t *testing.T) {
	size := int64(0)
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs"} {
		info, err := os.Stat(filepath.Join(*image, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
		t.Logf("%s: %.1f MB", name, float64(info.Size())/1e6)
	}
	s := newSite(t)
	n := s.node("n1", "203.0.113.11", options{boot: direct(t)})
	n.m.PowerOn()
	boot := n.register()
	<-time.After(quiet)
	used := n.hand.memory("MemTotal") - n.hand.memory("MemAvailable")
	for _, b := range []struct {
		what       string
		is, budget float64
		unit       string
		printed    bool
	}{
		{"the image", float64(size) / 1e6, mostImage / 1e6, "MB", false},
		{"from the kernel's start to registered", boot.Seconds(), mostBoot.Seconds(), "s", true},
		{"memory used 2 minutes after ready", float64(used), mostMemory, "MiB", false},
	} {
		t.Logf("budget: %s: %.1f %s of %.0f, ratio %.2f", b.what, b.is, b.unit, b.budget, b.is/b.budget)
		if b.is > b.budget && !b.printed {
			t.Errorf("%s is %.1f %s, must be at most %.0f", b.what, b.is, b.unit, b.budget)
		}
	}
	if *keep != "" {
		if err := os.MkdirAll(*keep, 0o755); err != nil {
			t.Fatal(err)
		}
		n.m.Picture(filepath.Join(*keep, "screen.png"))
	}
}
