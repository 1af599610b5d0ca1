package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func mountAll() error {
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.kind, err)
		}
	}
	return nil
}

// loadModules loads a folder's modules in the order of their names, which is that of their dependencies.
func loadModules(dir string) error {
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
			failed = append(failed, fmt.Errorf("%s: %w", filepath.Base(name), err))
		}
	}
	return errors.Join(failed...)
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

// uptime is in seconds since the kernel's start.
func uptime() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}

func memoryMiB() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int(info.Totalram * uint64(info.Unit) >> 20)
}

func readText(name string) string {
	b, _ := os.ReadFile(name)
	return strings.TrimSpace(string(b))
}

func readNumber(name string) int64 {
	n, _ := strconv.ParseInt(readText(name), 10, 64)
	return n
}

// stop ends the machine; what is written is on the disks then.
func stop(how int) {
	unix.Sync()
	if err := unix.Reboot(how); err != nil {
		say("cannot stop: %v", err)
	}
}
