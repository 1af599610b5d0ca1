package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest/fslabel"
	"github.com/croft-edge/croft/internal/guest/service"
)

// testAt is where the disk of a test is.
const testAt = "/run/test"

// runTest runs the program run of the file system whose label croft.test names, once the node is ready: the image is tested so. Its output
// is in its log, and on the console. Only who gives the kernel's command line, and so owns the machine, can name it.
func (m *machine) runTest(ctx context.Context) error {
	label := m.settings.Node.Test
	if label == "" {
		return nil
	}
	device, kind, err := findLabel(label)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(testAt, 0o700); err != nil {
		return errors.Wrap(err, "cannot run the test's program")
	}
	if err := unix.Mount(device, testAt, kind, unix.MS_RDONLY, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return errors.Wrapf(err, "cannot mount the test's disk %s", device)
	}
	log, err := service.OpenLog(logsAt, "test")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(testAt, "run"))
	cmd.Dir, cmd.Env = testAt, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	cmd.Stdout, cmd.Stderr = log, log
	m.say("the test's program runs")
	err = cmd.Run()
	for _, line := range log.Last(lastTestLines) {
		m.say("test: %s", line)
	}
	m.say("the test's program has ended: %v", cmd.ProcessState)
	return errors.Wrap(err, "cannot run the test's program")
}

// lastTestLines is how many lines of a test's program are shown.
const lastTestLines = 20

// findLabel finds the disk or partition with that label.
func findLabel(label string) (device, kind string, err error) {
	entries, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return "", "", errors.Wrap(err, "cannot look for disks")
	}
	for _, e := range entries {
		found, err := fslabel.Of("/dev/" + e.Name())
		if err == nil && found.Is(label) {
			return "/dev/" + e.Name(), found.Kind, nil
		}
	}
	return "", "", errors.Errorf("cannot find a file system with the label %s", label)
}
