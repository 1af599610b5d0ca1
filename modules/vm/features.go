package vm

import (
	"context"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/kernel"
)

// Features are what virtual machines need of the kernel, beside their networks.
func Features(m *Module) []kernel.Feature {
	return []kernel.Feature{{
		Name: "KVM", Effect: "virtual machines are emulated, which is many times slower", Degraded: true, Always: true,
		Try: func(context.Context) error { return m.emulator.lacksKVM() },
	}}
}

// The request for the version of KVM's interface, and the only version that there is: linux/kvm.h.
const (
	kvmGetVersion = 0xae00
	kvmVersion    = 12
)

// lacksKVM says why guests don't run with KVM, by what was seen when one was started, before that by asking the device; nil when they do, and
// when the operator wants none.
func (e *emulator) lacksKVM() error {
	if e.only == qemu.TCG {
		return nil
	}
	if last := e.lastOutcome(); last.known() && e.only == "" {
		if last.accelerator == qemu.KVM {
			return nil
		}
		return errors.New(last.why)
	}
	device, err := os.OpenFile(e.device, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return errors.Errorf("this machine has no %s", e.device)
	}
	if err != nil {
		return err
	}
	defer device.Close()
	switch version, err := unix.IoctlRetInt(int(device.Fd()), kvmGetVersion); {
	case err != nil:
		return errors.Wrapf(err, "%s doesn't answer", e.device)
	case version != kvmVersion:
		return errors.Errorf("%s has version %d, needed is %d", e.device, version, kvmVersion)
	}
	return nil
}
