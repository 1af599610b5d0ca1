package spec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// probe is the program that containers of these tests run, built by TestMain.
var probe string

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
	c := exec.Command("go", "build", "-o", probe, "./probe")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the probe: %w\n%s", err, out)
	}
	return nil
}
