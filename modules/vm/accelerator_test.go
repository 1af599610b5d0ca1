package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/cgroup"
)

// script is a QEMU that notes each probe: its firmware probe ends with the status firmware, its kernel probe prints kernel.
const script = `#!/bin/sh
case "$*" in
--version) echo QEMU emulator version 9.0 ;;
*isa-debug-exit*) echo firmware >> %[1]s; exit %[2]d ;;
*-kernel*) echo kernel >> %[1]s; echo "%[3]s" ;;
esac
`

// TestAccelerator: KVM is used where both probes succeed; each is made once, and its failure has a reason.
func TestAccelerator(t *testing.T) {
	t.Parallel()
	const answered = 85
	for name, one := range map[string]struct {
		device   string
		firmware int
		kernel   string
		want     qemu.Accelerator
		why      string
		probes   string
	}{
		"works":           {"/dev/null", answered, "Kernel panic - not syncing: VFS", qemu.KVM, "", "firmware firmware kernel"},
		"no device":       {"/nowhere/kvm", answered, "Kernel panic", qemu.TCG, "no /nowhere/kvm", ""},
		"no guest runs":   {"/dev/null", 1, "Kernel panic", qemu.TCG, "a probe guest with kvm doesn't run", "firmware"},
		"no kernel boots": {"/dev/null", answered, "decompressing", qemu.TCG, "doesn't run with kvm", "firmware firmware kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "croft-vm-")
			must(t, err)
			t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
			must(t, os.Chmod(dir, 0o755)) // a probe's user runs the script
			notes, program := filepath.Join(dir, "notes"), filepath.Join(dir, "qemu")
			must(t, os.WriteFile(notes, nil, 0o666))
			must(t, os.Chmod(notes, 0o666))
			must(t, os.WriteFile(program, fmt.Appendf(nil, script, notes, one.firmware, one.kernel), 0o755))
			group := "/" + filepath.Base(dir)
			t.Cleanup(func() { must(t, cgroup.End(t.Context(), group)) })
			e := newEmulator(Config{Program: program, Cgroup: group, Log: zerolog.Nop()})
			e.device, e.within = one.device, time.Minute // a busy machine may take long for a small script
			kernel, err := os.Open(os.DevNull)
			must(t, err)
			defer kernel.Close()
			for range 2 {
				got, err := e.forKernel(t.Context(), kernel)
				if err != nil || got.accelerator != one.want || !strings.Contains(got.why, one.why) {
					t.Errorf("accelerator %q because %q, %v", got.accelerator, got.why, err)
				}
			}
			probes, err := cgroup.At(group + "/probe")
			if must(t, err); probes.There() {
				t.Errorf("a probe's control group stays at %v", probes.Folders())
			}
			noted, err := os.ReadFile(notes)
			must(t, err)
			if probes := strings.Join(strings.Fields(string(noted)), " "); probes != one.probes {
				t.Errorf("probes %q, want %q", probes, one.probes)
			}
		})
	}
}

// TestAcceleratorOfThisMachine: whatever this machine can do, there is an accelerator, and a reason where it isn't KVM.
func TestAcceleratorOfThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.config()
	c.Accelerator = ""
	m := w.open(c)
	kernel, err := os.Open(vmguest.Build(t).Kernel)
	must(t, err)
	defer kernel.Close()
	got, err := m.emulator.forKernel(t.Context(), kernel)
	if err != nil || (got.accelerator == qemu.KVM) != (got.why == "") || got.accelerator == "" {
		t.Errorf("accelerator %q because %q, %v", got.accelerator, got.why, err)
	}
	t.Logf("%s: %s", got.accelerator, got.why)
}
