package zdb_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/modules/zdb"
)

// The tests run in a network namespace of their own, which plays the node's:
// TestMain runs this very program again inside one; and once more, as a node's
// agent, whenever a test needs one that it can kill. The zdbs are the real
// program, each in a namespace of its own.
const (
	roleVariable  = "CROFT_TEST_ROLE"
	insideRole    = "inside"
	agentRole     = "agent"
	programName   = "zdb"
	toolVariable  = "CROFT_TEST_ZDB"
	stateVariable = "CROFT_TEST_STATE"
	portVariable  = "CROFT_TEST_PORT"

	// The addresses of the node that plays here.
	nodeIPv4, nodeIPv6 = "10.77.0.1", "fd77::1"
)

// Only here is the main goroutine sure to be on the process' first thread, where
// it stays: see TestMain. The death signal of runAgain is of that thread, too.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // it is too late in TestMain

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case agentRole:
		os.Exit(runAgent())
	case insideRole:
		if err := makeLinks(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot make the node's links (the tests need root):", err)
			os.Exit(1)
		}
		// The process' first thread is elsewhere, as that of an agent may be at times:
		// it isn't what tells the node's namespace.
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil || syscall.Gettid() != os.Getpid() {
			fmt.Fprintln(os.Stderr, "cannot move the first thread:", err)
			os.Exit(1)
		}
		goleak.VerifyTestMain(m)
	}
	os.Exit(runAgain())
}

// runAgain builds zdb and runs the tests in a network namespace of their own.
func runAgain() int {
	dir, err := os.MkdirTemp("", "croft-zdb-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, programName)
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/croft-edge/croft/cmd/zdb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build zdb: %v\n%s", err, out)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), roleVariable+"="+insideRole, toolVariable+"="+program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "inside:", err)
		return 1
	}
	return 0
}

// makeLinks gives the namespace a loopback and a link with the node's addresses.
func makeLinks() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return err
	}
	if _, err := netlink.LinkByName("eth0"); err == nil {
		return nil // a worker of a fuzz test is started by one that has made it
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "cable"}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, at := range []string{nodeIPv4 + "/24", nodeIPv6 + "/64"} {
		addr, err := netlink.ParseAddr(at)
		if err != nil {
			return err
		}
		addr.Flags = syscall.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return nil
}

// runAgent is a node's agent, as far as zdb goes: it says when it has all in hand.
func runAgent() int {
	var port uint16
	_, err := fmt.Sscan(os.Getenv(portVariable), &port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, err := zdb.Open(ctx, zdb.Config{StateDir: os.Getenv(stateVariable), FirstPort: port, LastPort: port, Log: zerolog.New(os.Stderr)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	_ = m.Run(ctx)
	if err := m.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
