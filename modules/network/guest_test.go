package network_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/frame"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// patience bounds the wait for what must come: a frame, an answer, a change. A node without KVM takes its time.
const patience = 3 * time.Minute

// tapped is a network with two VMs, one of which is watched by the other, and a container.
type tapped struct {
	*fixture
	spec node.NetworkSpec
	info node.NetworkInfo
	// guest sends, neighbour and the container's wire see what comes.
	guest, neighbour *guest
	member           node.Member
	place            string
	wire             *frame.Wire
	count            int
}

func newTapped(t *testing.T, f *fixture) *tapped {
	t.Helper()
	w := &tapped{fixture: f, spec: conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))}
	var err error
	if w.info, err = f.networks.Create(t.Context(), w.spec); err != nil {
		t.Fatal(err)
	}
	pid := process(t)
	w.place = netns.OfProcess(pid)
	if w.member, err = f.networks.Join(t.Context(), node.MemberSpec{Network: w.spec.ID, Member: "5-1", Name: "web", PID: pid}); err != nil {
		t.Fatal(err)
	}
	w.wire = frame.NewWire(t, inside(t, w.place), "eth0")
	w.guest, w.neighbour = w.boot("8-1"), w.boot("9-1")
	return w
}

// inside runs functions in the network namespace of that path.
func inside(t *testing.T, path string) func(f func()) {
	return func(f func()) {
		if err := netns.Do(path, func() error { f(); return nil }); err != nil {
			t.Error(err)
		}
	}
}

// ask is a VM's wish for a tap.
func (w *tapped) ask(vm string) node.TapSpec {
	return node.TapSpec{Network: w.spec.ID, VM: vm, Hash: expect.OneHash}
}

// setup makes a VM's tap, or mends it.
func (w *tapped) setup(vm string) node.Tap {
	w.t.Helper()
	made, err := w.taps.Setup(w.t.Context(), w.ask(vm))
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// boot starts a VM. The bridge lets frames pass a moment after its tap is open.
func (w *tapped) boot(vm string) *guest {
	w.t.Helper()
	g := newGuest(w.t, w.setup(vm))
	if g.finds(g.Gateway) == "" {
		w.t.Fatalf("%s doesn't find the gateway", vm)
	}
	return g
}

// token is a text that no other frame has.
func (w *tapped) token() string {
	w.count++
	return fmt.Sprintf("token-%d-%d", w.spec.ListenPort, w.count)
}

// gatewayMAC is the bridge's.
func (w *tapped) gatewayMAC() string { return macOf(w.t, w.info.Namespace, "br0") }

// memberMAC is the container's.
func (w *tapped) memberMAC() string { return macOf(w.t, w.place, "eth0") }

func macOf(t *testing.T, path, link string) (mac string) {
	t.Helper()
	inside(t, path)(func() {
		l, err := net.InterfaceByName(link)
		if err != nil {
			t.Error(err)
			return
		}
		mac = l.HardwareAddr.String()
	})
	return mac
}

// guest is a VM that has its tap open as QEMU has.
type guest struct {
	node.Tap
	t    *testing.T
	file *os.File
}

// newGuest opens a tap. A child that another test forks has the tap's last descriptor until its exec.
func newGuest(t *testing.T, tap node.Tap) *guest {
	t.Helper()
	var file *os.File
	err := netns.Do(tap.Namespace, func() (err error) {
		for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if file, err = openTap(tap.Device); !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &guest{tap, t, file}
}

// openTap opens a tap device of the thread's namespace.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := attachTap(fd, name); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	// Only now, as a file: the poller never wakes a descriptor that was registered
	// before it became a tap's.
	return os.NewFile(uintptr(fd), name), nil
}

func attachTap(fd int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
}

// Flags and kinds of a virtio header.
const (
	needsSum  = 1
	gsoTCP4   = 1
	gsoUDP    = 5
	vnetBytes = 10
)

// vnet is the virtio header before a frame; sizes and places are in bytes.
type vnet struct {
	flags, gso                          byte
	header, segment, sumStart, sumPlace uint16
}

func (v vnet) bytes() []byte {
	out := []byte{v.flags, v.gso}
	for _, n := range []uint16{v.header, v.segment, v.sumStart, v.sumPlace} {
		out = binary.NativeEndian.AppendUint16(out, n)
	}
	return out
}

// send sends a frame, filled up to the shortest on a wire.
func (g *guest) send(f []byte) {
	g.t.Helper()
	if err := g.sendAs(vnet{}, append(slices.Clone(f), make([]byte, max(0, 60-len(f)))...)); err != nil {
		g.t.Fatalf("cannot send a frame: %v", err)
	}
}

// sendAs sends a frame behind a virtio header. The kernel refuses some.
func (g *guest) sendAs(head vnet, f []byte) error {
	_, err := g.file.Write(append(head.bytes(), f...))
	return err
}

// receive takes frames until enough says that it is.
func (g *guest) receive(wait time.Duration, enough func(f []byte) bool) bool {
	g.t.Helper()
	if err := g.file.SetReadDeadline(time.Now().Add(wait)); err != nil {
		g.t.Fatal(err)
	}
	buf := make([]byte, 1<<17)
	for {
		n, err := g.file.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			g.t.Fatal(err)
		}
		if enough(buf[min(n, vnetBytes):n]) {
			return true
		}
	}
}

// udp4 and udp6 are frames of the guest's own.
func (g *guest) udp4(toMAC, to string, port int, text string) []byte {
	return frame.Ether(toMAC, g.MAC, unix.ETH_P_IP, frame.UDP4(g.IPv4, to, 1000, port, text))
}

func (g *guest) udp6(toMAC, to string, port int, text string) []byte {
	return frame.Ether(toMAC, g.MAC, unix.ETH_P_IPV6, frame.UDP6(g.IPv6, to, 1000, port, text))
}

// hasText reports whether one of the texts is in a frame.
func hasText(f []byte, texts ...string) bool {
	return slices.ContainsFunc(frame.Texts(f), func(text string) bool { return slices.Contains(texts, text) })
}

// echo answers UDP packets to a port in the network namespace of that path.
func echo(t *testing.T, path string, port int) {
	t.Helper()
	var conn net.PacketConn
	err := netns.Do(path, func() (err error) {
		conn, err = net.ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buf[:n], from)
		}
	}()
}

// finds asks by ARP where an IPv4 address of the network is.
func (g *guest) finds(address string) (mac string) {
	g.t.Helper()
	question := frame.ARP(g.MAC, 1, frame.Sender{MAC: g.MAC, IP: g.IPv4}, address, "")
	for end := time.Now().Add(patience); mac == "" && time.Now().Before(end); {
		g.send(question)
		g.receive(time.Second, func(f []byte) bool {
			if len(f) >= 42 && f[12] == 8 && f[13] == 6 && f[21] == 2 && slices.Equal(f[28:32], frame.IP(address)) {
				mac = net.HardwareAddr(f[22:28]).String()
			}
			return mac != ""
		})
	}
	return mac
}

// talks fails unless a UDP packet to an address is answered, by way of that
// neighbour. The guest says where it is when it is asked.
func (g *guest) talks(mac, address string, port int, text string) {
	g.t.Helper()
	packet := g.udp4
	if netip.MustParseAddr(address).Is6() {
		packet = g.udp6
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		g.send(packet(mac, address, port, text))
		if g.receive(time.Second, func(f []byte) bool { g.answer(f); return hasText(f, text) }) {
			return
		}
	}
	g.t.Errorf("no answer from %s", address)
}

// answer answers a neighbour that asks where the guest is.
func (g *guest) answer(f []byte) {
	switch {
	case len(f) >= 42 && f[12] == 8 && f[13] == 6 && f[21] == 1 && slices.Equal(f[38:42], frame.IP(g.IPv4)):
		asker, _ := netip.AddrFromSlice(f[28:32])
		g.send(frame.ARP(g.MAC, 2, frame.Sender{MAC: g.MAC, IP: g.IPv4}, asker.String(), ""))
	case len(f) >= 78 && f[12] == 0x86 && f[20] == unix.IPPROTO_ICMPV6 && f[54] == 135 && slices.Equal(f[62:78], frame.IP(g.IPv6)):
		asker, _ := netip.AddrFromSlice(f[22:38])
		body := slices.Concat([]byte{136, 0, 0, 0, 0x60, 0, 0, 0}, frame.IP(g.IPv6), []byte{2, 1}, frame.MAC(g.MAC))
		g.send(frame.Ether(net.HardwareAddr(f[6:12]).String(), g.MAC, unix.ETH_P_IPV6,
			frame.Packet6(g.IPv6, asker.String(), unix.IPPROTO_ICMPV6, frame.Upper(g.IPv6, asker.String(), unix.IPPROTO_ICMPV6, 2, body))))
	}
}
