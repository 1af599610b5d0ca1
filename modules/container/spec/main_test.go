package spec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// probe is the program that containers of these tests run, probe32 the same for
// the machine's older 32 bit programs, where it runs such; built by TestMain.
var probe, probe32 string

func TestMain(m *testing.M) {
	code := 1
	if err := buildProbe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(filepath.Dir(probe))
	os.Exit(code)
}

func buildProbe() error {
	dir, err := os.MkdirTemp("", "croft-probe-")
	if err != nil {
		return err
	}
	probe = filepath.Join(dir, "probe")
	if err := build(probe); err != nil || runtime.GOARCH != "amd64" {
		return err
	}
	program := filepath.Join(dir, "probe32")
	if err := build(program, "GOARCH=386"); err != nil {
		return err
	}
	// Some kernels, and some processors' guests, run no 32 bit programs at all: then there is nothing to hold.
	if err := exec.CommandContext(context.Background(), program).Run(); !errors.Is(err, unix.ENOEXEC) {
		probe32 = program
	}
	return nil
}

func build(program string, env ...string) error {
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/croft-edge/croft/internal/testing/probe")
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the probe: %w\n%s", err, out)
	}
	return nil
}
