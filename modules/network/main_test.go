package network_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/carrier"
)

// The tests run in a network namespace of their own, which plays the node's:
// the machine's is never touched. TestMain runs this very program again inside
// one; and once more, as the carrier, whenever a test needs that.
const (
	roleVariable = "CROFT_TEST_ROLE"
	insideRole   = "inside"
	carrierRole  = "carrier"
	dirVariable  = "CROFT_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case carrierRole:
		os.Exit(serveCarrier())
	case insideRole:
		os.Exit(runInside(m))
	}
	os.Exit(runAgain())
}

// runAgain runs the tests in a network namespace of their own.
func runAgain() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), roleVariable+"="+insideRole)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death signal is of the thread that starts
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "inside:", err)
		return 1
	}
	return 0
}

func runInside(m *testing.M) int {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot bring up lo (the tests need root):", err)
		return 1
	}
	return m.Run()
}

// serveCarrier is the carrier of the folder in the environment.
func serveCarrier() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := carrier.Serve(ctx, carrier.ServeConfig{
		RunDir: os.Getenv(dirVariable), Version: "test", Level: zerolog.DebugLevel, Zones: carrier.DNS([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:5353")}),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
