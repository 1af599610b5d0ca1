package dial

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// TestThisMachinesOwnAddresses: a public address that the machine gets while
// the dialer runs is refused from then on, and its neighbours aren't. It runs
// in a network namespace of its own, whose thread ends with it: nothing can
// leave, and nothing outside is touched.
func TestThisMachinesOwnAddresses(t *testing.T) {
	d := newDialer(t, Config{})
	exempt := newDialer(t, Config{}, "11.22.33.44:80")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("cannot make a network namespace (this test needs root): %v", err)
			return
		}
		to := netip.MustParseAddrPort("11.22.33.44:80")
		if err := d.Judge(to); err != nil {
			t.Error(err)
		}
		if err := setLoopback("11.22.33.44"); err != nil {
			t.Error(err)
			return
		}
		listener, err := net.Listen("tcp", to.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer listener.Close()
		for _, host := range []string{"11.22.33.44", "[::ffff:11.22.33.44]", "[64:ff9b::11.22.33.44]"} {
			err := dialNow(t, d, "tcp", host+":80")
			if node.KindOf(err) != node.Refused {
				t.Errorf("%s: %v", host, err)
			}
		}
		if err := dialNow(t, exempt, "tcp", "11.22.33.44:80"); err != nil {
			t.Errorf("with an exception: %v", err)
		}
		if err := d.Judge(netip.MustParseAddrPort("11.22.33.45:80")); err != nil {
			t.Errorf("its neighbour: %v", err)
		}
	}()
	<-done
}

// setLoopback gives lo an address and brings it up.
func setLoopback(address string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := ifreq.SetInet4Addr(net.ParseIP(address).To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, ifreq); err != nil {
		return err
	}
	ifreq.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq)
}

func TestOwnAddressesAreReadWithoutLoopback(t *testing.T) {
	ranges, err := ownRanges()
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	found := map[netip.Addr]bool{}
	for _, r := range ranges {
		found[r.prefix.Addr()] = r.prefix.IsSingleIP()
	}
	for _, a := range addrs {
		addr := netip.MustParsePrefix(a.String()).Addr().Unmap()
		if found[addr] == addr.IsLoopback() {
			t.Errorf("%s: refused as an own address: %v", addr, found[addr])
		}
	}
}
