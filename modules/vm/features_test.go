package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/vm/qemu"
)

// What a guest has shown counts more than what the device says.
func TestWhetherThereIsKVM(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kvm")
	must(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		device string
		only   qemu.Accelerator
		last   outcome
		want   string
	}{
		"no device":           {"/nowhere/kvm", "", outcome{}, "this machine has no /nowhere/kvm"},
		"no KVM":              {file, "", outcome{}, file + " doesn't answer"},
		"seen to work":        {"/nowhere/kvm", "", outcome{accelerator: qemu.KVM}, ""},
		"seen to fail":        {file, "", outcome{accelerator: qemu.TCG, why: "a probe guest doesn't run"}, "a probe guest doesn't run"},
		"none is wanted":      {"/nowhere/kvm", qemu.TCG, outcome{accelerator: qemu.TCG}, ""},
		"nothing else wanted": {"/nowhere/kvm", qemu.KVM, outcome{accelerator: qemu.KVM}, "this machine has no /nowhere/kvm"},
	} {
		e := newEmulator(Config{Log: zerolog.Nop()})
		e.device, e.only, e.general = c.device, c.only, c.last
		err := e.lacksKVM()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
