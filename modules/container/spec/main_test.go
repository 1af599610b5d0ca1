package spec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
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
	probe32 = filepath.Join(dir, "probe32")
	return build(probe32, "GOARCH=386")
}

func build(program string, env ...string) error {
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/croft-edge/croft/internal/testing/probe")
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the probe: %w\n%s", err, out)
	}
	return nil
}
