package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The tests run their own program as croft-init, with the race detector, where the machine's libraries
// are available, and the real, static one elsewhere. The stage comes between: it sets up new namespaces
// like a container's.
const (
	roleVariable = "CROFT_TEST_ROLE"
	initRole     = "init"
	stageRole    = "stage"
	rootVariable = "CROFT_TEST_ROOT"
)

// Built by TestMain: the static croft-init, and the program of the containers.
var staticInit, tool string

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case initRole:
		main()
		return
	case stageRole:
		fmt.Fprintln(os.Stderr, stage())
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "croft-init-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	staticInit, tool = filepath.Join(dir, "croft-init"), filepath.Join(dir, "tool")
	for path, of := range map[string]string{staticInit: ".", tool: "./testdata/tool"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, of)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// stage runs as the first process of new namespaces, and becomes croft-init: the static one in the root
// that the environment names, else this program.
func stage() error {
	root := os.Getenv(rootVariable)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := unix.Mount("proc", root+"/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if root == "" {
		if err := os.Setenv(roleVariable, initRole); err != nil {
			return err
		}
		return unix.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	if err := unix.Mount("devpts", root+"/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("devpts: %w", err)
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	return unix.Exec("/.croft/init", os.Args, []string{"PATH=/bin"})
}
