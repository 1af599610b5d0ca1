package watchdog

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
)

// Timeout is how many seconds a machine hangs before the hardware starts it again.
const Timeout = 60

// Device is a watchdog of the hardware or of the kernel. Unless Pet is called, the machine is started again after Timeout.
type Device struct {
	file *os.File
	name string
}

// Open opens the machine's watchdog: one of the hardware, if there is one; else the kernel's, whose module softdog load loads.
func Open(dev, sys string, load func(module string) error) (*Device, error) {
	found := devices(sys)
	if len(found) == 0 {
		if err := load("softdog"); err != nil {
			return nil, errors.WithMessage(err, "cannot watch over this machine: it has no watchdog")
		}
		found = devices(sys)
	}
	var failed error
	for _, name := range found {
		f, err := os.OpenFile(filepath.Join(dev, name), os.O_WRONLY, 0)
		if err != nil {
			failed = err
			continue
		}
		// One that can't be set has a time of its own, usually a minute.
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.WDIOC_SETTIMEOUT, Timeout)
		d := &Device{file: f, name: guest.ReadText(filepath.Join(sys, name, "identity"))}
		if d.name == "" {
			d.name = name
		}
		return d, d.Pet()
	}
	if failed == nil {
		failed = errors.New("the kernel shows none")
	}
	return nil, errors.Wrap(failed, "cannot watch over this machine: it has no watchdog")
}

// devices are the names of watchdogs, the kernel's own last.
func devices(sys string) []string {
	entries, _ := os.ReadDir(sys)
	var hardware, soft []string
	for _, e := range entries {
		if guest.ReadText(filepath.Join(sys, e.Name(), "identity")) == "Software Watchdog" {
			soft = append(soft, e.Name())
		} else {
			hardware = append(hardware, e.Name())
		}
	}
	return slices.Concat(hardware, soft)
}

// Name is the hardware's name for itself.
func (d *Device) Name() string { return d.name }

// Pet tells that the machine doesn't hang.
func (d *Device) Pet() error {
	_, err := d.file.Write([]byte{0})
	return errors.Wrap(err, "cannot tell the watchdog that the machine runs")
}

// Close has the watchdog watch no more: the machine is about to be switched off in order.
func (d *Device) Close() error {
	// The kernel's Documentation/watchdog/watchdog-api.rst: without this letter a close counts as a crash.
	if _, err := d.file.Write([]byte("V")); err != nil {
		d.file.Close()
		return errors.Wrap(err, "cannot stop the watchdog")
	}
	return errors.Wrap(d.file.Close(), "cannot stop the watchdog")
}
