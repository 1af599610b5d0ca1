package network_test

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// link is the interface of that name in the network's namespace.
func (w *tapped) link(name string) *net.Interface {
	w.t.Helper()
	var found *net.Interface
	err := netns.Do(w.info.Namespace, func() (err error) {
		found, err = net.InterfaceByName(name)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// tap is a VM's tap as the module lists it.
func (w *tapped) tap(vm string) node.Tap {
	w.t.Helper()
	list, err := w.taps.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, one := range list {
		if one.VM == vm {
			return one
		}
	}
	w.t.Fatalf("%s has no tap: %+v", vm, list)
	return node.Tap{}
}

// TestATapLasts: over its VM's end, and the module's.
func TestATapLasts(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	before := w.link(w.guest.Device)
	if before.Flags&net.FlagUp == 0 || before.MTU != resource.LinkMTU || before.HardwareAddr.String() == w.guest.MAC {
		t.Errorf("the device is %+v, must be up with MTU %d and another MAC than %s", before, resource.LinkMTU, w.guest.MAC)
	}
	if err := w.guest.file.Close(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	echo(t, w.place, 7)
	if after := w.link(w.guest.Device); after.Index != before.Index || after.Flags&net.FlagUp == 0 {
		t.Errorf("after its VM's end and the module's it is %+v, was %+v", after, before)
	}
	if got := w.tap("8-1"); got != w.guest.Tap {
		t.Errorf("it is %+v, was %+v", got, w.guest.Tap)
	}
	// Another VM's stays open meanwhile.
	w.guest = newGuest(t, w.guest.Tap)
	w.unhurt()
	if again := w.setup("8-1"); again != w.guest.Tap || w.link(w.guest.Device).Index != before.Index {
		t.Errorf("made again it is %+v, was %+v", again, w.guest.Tap)
	}
	w.unhurt()
	if err := netns.Do(w.guest.Namespace, func() error { _, err := openTap(w.guest.Device); return err }); !errors.Is(err, unix.EBUSY) {
		t.Errorf("opened twice: %v", err)
	}
	if err := w.taps.Remove(t.Context(), "8-1"); err != nil {
		t.Fatal(err)
	}
	err := netns.Do(w.guest.Namespace, func() error {
		for _, name := range []string{w.guest.Device, "i" + w.guest.Device[1:]} {
			if _, err := net.InterfaceByName(name); err == nil {
				t.Errorf("removed, and link %s is there", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestATapIsRoots: a process of another user can't open it, in the network's namespace
// and with /dev/net/tun open.
func TestATapIsRoots(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	name := w.guest.Device
	if err := w.guest.file.Close(); err != nil {
		t.Fatal(err)
	}
	as := func(id uintptr) error {
		return netns.Do(w.info.Namespace, func() error {
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			// Of this thread only, which ends with the function.
			runtime.LockOSThread()
			for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
				if _, _, errno := unix.RawSyscall(call, id, id, id); id != 0 && errno != 0 {
					return errno
				}
			}
			return attachTap(fd, name)
		})
	}
	if err := as(65534); !errors.Is(err, unix.EPERM) {
		t.Errorf("another user opens it: %v, want EPERM", err)
	}
	// A process that another test starts at this moment has a copy of the guest's file until it runs its program.
	wait := time.NewTicker(10 * time.Millisecond)
	defer wait.Stop()
	err := as(0)
	for end := time.Now().Add(patience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = as(0) {
		<-wait.C
	}
	if err != nil {
		t.Errorf("root can't open it: %v", err)
	}
}

// TestATapIsMended: damage to a tap is seen and mended by Setup. A VM keeps its device
// where that can be mended in place.
func TestATapIsMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command, says string
		anew          bool
	}{
		"it is removed":                   {"ip link del T", "link T is gone", true},
		"it is of another kind":           {"ip link del T; ip link add T type ifb", "link T isn't a lasting tap device", true},
		"it is down":                      {"ip link set T down", "link T is down", false},
		"it is off the bridge":            {"ip link set T nomaster", "link T isn't on the bridge", false},
		"another MAC":                     {"ip link set T down; ip link set T address 02:00:00:00:00:99", "link T has hardware address 02:00:00:00:00:99", false},
		"another MTU":                     {"ip link set T mtu 1400", "link T has MTU 1400", false},
		"its entry in the bridge's table": {"bridge fdb del MAC dev T master", "has no fixed entry", false},
		"its intake is removed":           {"ip link del I", "link I is gone", false},
		"its intake is down":              {"ip link set I down", "link I is down", false},
		"nothing is led to its intake":    {"tc qdisc del dev T ingress", "isn't led through I", false},
		"some is led past its intake":     {"tc filter add dev T parent ffff: prio 9 protocol all u32 match u32 0 0", "isn't led through I", false},
		"all is led elsewhere":            {"tc filter del dev T parent ffff:; tc filter add dev T parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev up0", "isn't led through I", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTapped(t, newFixture(t))
			echo(t, w.place, 7)
			w.damage(c.command)
			says := strings.NewReplacer("T", w.guest.Device, " I", " i"+w.guest.Device[1:]).Replace(c.says)
			if strings.Contains(c.says, "MTU") {
				says = strings.Replace(c.says, "T ", w.guest.Device+" ", 1)
			}
			w.mended(says, c.anew)
		})
	}
	t.Run("what its VM changes", func(t *testing.T) {
		t.Parallel()
		w := newTapped(t, newFixture(t))
		echo(t, w.place, 7)
		for _, call := range []uint{unix.TUNSETOWNER, unix.TUNSETPERSIST} {
			value := 1000
			if call == unix.TUNSETPERSIST {
				value = 0
			}
			if err := unix.IoctlSetInt(int(w.guest.file.Fd()), call, value); err != nil {
				t.Fatal(err)
			}
			if err := unix.SetNonblock(int(w.guest.file.Fd()), true); err != nil {
				t.Fatal(err)
			}
			w.mended("isn't a lasting tap device of root", true)
		}
	})
}

// damage runs commands in the network's namespace. T is the tap, I its intake.
func (w *tapped) damage(commands string) {
	w.t.Helper()
	for command := range strings.SplitSeq(commands, "; ") {
		words := strings.Fields(command)
		for i, word := range words {
			switch word {
			case "T":
				words[i] = w.guest.Device
			case "I":
				words[i] = "i" + w.guest.Device[1:]
			case "MAC":
				words[i] = w.guest.MAC
			}
		}
		run(w.t, w.info.Namespace, strings.Join(words, " "))
	}
}

// mended fails unless the drift of the guest's tap is told and Setup mends it. anew is
// whether its VM has to open it anew.
func (w *tapped) mended(says string, anew bool) {
	w.t.Helper()
	if drift := w.tap("8-1").Drift; !strings.Contains(drift, says) {
		w.t.Errorf("drift is %q, want %q in it", drift, says)
	}
	if drift := w.drift(); !strings.Contains(drift, says) {
		w.t.Errorf("the network's drift is %q, want %q in it", drift, says)
	}
	if drift := w.tap("9-1").Drift; drift != "" {
		w.t.Errorf("the other VM's drift is %q", drift)
	}
	if got := w.setup("8-1"); got != w.guest.Tap {
		w.t.Errorf("mended it is %+v, was %+v", got, w.guest.Tap)
	}
	if drift := w.tap("8-1").Drift; drift != "" {
		w.t.Errorf("after Setup its drift is %q", drift)
	}
	if anew {
		_ = w.guest.file.Close()
		w.guest = newGuest(w.t, w.guest.Tap)
	}
	w.unhurt()
}
