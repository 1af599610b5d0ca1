package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
)

// runTests runs the tests of the disk's plan. It prints what go test -v does, and ends the machine.
func runTests() error {
	out, err := openPort(wire.ResultPort)
	if err != nil {
		return err
	}
	if err := prepareAndRun(out); err != nil {
		fmt.Fprintf(out, "FAIL\tthe tests' machine\t0s: %v\n", err)
	}
	fmt.Fprintln(out, wire.Done)
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func prepareAndRun(out io.Writer) error {
	raw, err := os.ReadFile(filepath.Join(diskAt, wire.PlanFile))
	if err != nil {
		return err
	}
	var plan wire.Plan
	if err := json.Unmarshal(raw, &plan); err != nil {
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	if release, err := os.ReadFile("/proc/version"); err == nil {
		fmt.Fprintf(out, "kernel: %s", release)
	}
	for _, p := range plan.Packages {
		runPackage(out, plan, p)
	}
	return nil
}

// runPackage runs the test of a package. What it has started and left ends with its deadline at the latest, because the machine ends.
func runPackage(out io.Writer, plan wire.Plan, p wire.Package) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), plan.Within+time.Minute)
	defer cancel()
	args := append([]string{"-test.v", "-test.timeout=" + plan.Within.String(), "-test.run=" + p.Run}, plan.Arguments...)
	cmd := exec.CommandContext(ctx, filepath.Join(wire.TestsAt, p.Test), args...)
	cmd.Dir = filepath.Join(wire.SourceAt, p.Folder)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	none := &finder{next: out, text: []byte("testing: warning: no tests to run")}
	cmd.Stdout, cmd.Stderr = none, none
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	took := time.Since(began).Seconds()
	if err == nil && p.Run != "" && none.found {
		err = fmt.Errorf("no test's name matches %q", p.Run)
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		fmt.Fprintf(out, "%v\nFAIL\t%s/%s\t%.1fs\n", err, plan.Path, p.Folder, took)
		return
	}
	fmt.Fprintf(out, "ok  \t%s/%s\t%.1fs\n", plan.Path, p.Folder, took)
}

// finder passes on what it is given, and notices a text in one piece of it.
type finder struct {
	next  io.Writer
	text  []byte
	found bool
}

func (f *finder) Write(b []byte) (int, error) {
	f.found = f.found || bytes.Contains(b, f.text)
	return f.next.Write(b)
}
