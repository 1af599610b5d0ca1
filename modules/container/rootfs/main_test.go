package rootfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The test binary runs again as a process that ends at a step of Make or Remove.
const (
	roleVariable    = "CROFT_TEST_ROLE"
	crashRole       = "crash"
	programVariable = "CROFT_TEST_INSIDE"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == crashRole {
		os.Exit(crashInside())
	}
	os.Exit(withProgram(m))
}

// withProgram builds the program that the tests run in containers.
func withProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "croft-inside-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program := filepath.Join(dir, "inside")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./testdata/inside")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build what runs in containers: %v\n%s", err, out)
		return 1
	}
	os.Setenv(programVariable, program)
	return m.Run()
}
