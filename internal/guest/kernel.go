package guest

import (
	stderrors "errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// MountKernel mounts proc, sysfs and devtmpfs.
func MountKernel() error {
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return errors.Wrapf(err, "cannot mount %s", m.kind)
		}
	}
	return nil
}

// LoadModules loads a folder's modules in the order of their names, which is that of their dependencies. It goes on
// after a module that can't be loaded.
func LoadModules(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if strings.HasSuffix(name, "virtio_mmio.ko") && !hasMMIO() {
			continue
		}
		if err := loadModule(name); err != nil {
			failed = append(failed, errors.WithMessage(err, filepath.Base(name)))
		}
	}
	return stderrors.Join(failed...)
}

// hasMMIO reports whether ACPI names virtio-mmio devices, as QEMU's machine microvm does.
func hasMMIO() bool {
	found, _ := filepath.Glob("/sys/bus/acpi/devices/LNRO0005:*")
	return len(found) > 0
}

func loadModule(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// UptimeSeconds is since the kernel's start.
func UptimeSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}

// syncTime is how long the disks have to take what is written: a file system that hangs would keep the machine from ever starting again.
const syncTime = 20 * time.Second

// Stop ends the machine: how is unix.LINUX_REBOOT_CMD_POWER_OFF or LINUX_REBOOT_CMD_RESTART. What is written is on the
// disks then, unless one hangs. It returns only with an error.
func Stop(how int) error {
	within(syncTime, unix.Sync)
	return unix.Reboot(how)
}

// within returns once do has returned, or after limit: do runs on then.
func within(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}
