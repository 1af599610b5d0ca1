package netlab

import (
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
)

func TestTwoNamespacesTalkOverAVeth(t *testing.T) {
	lab := New(t)
	a, b := lab.Namespace("a"), lab.Namespace("b")
	lab.Veth(a, "eth0", b, "eth0")
	for _, c := range []struct{ a, b, dial string }{
		{"10.0.0.1/24", "10.0.0.2/24", "10.0.0.2:80"},
		{"fd00::1/64", "fd00::2/64", "[fd00::2]:80"},
	} {
		a.Addr("eth0", c.a)
		b.Addr("eth0", c.b)
		listener := b.ListenTCP(c.dial)
		conn, err := a.DialTCP(c.dial, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		listener.Close()
	}
	inside := b.ListenTCP("127.0.0.1:0").Addr().String()
	if _, err := net.DialTimeout("tcp", inside, time.Second); err == nil {
		t.Error("the test's own namespace reaches the loopback of the lab")
	}
}

func TestNamespacesForwardOnRequestOnly(t *testing.T) {
	lab := New(t)
	plain, router := lab.Namespace("plain"), lab.Namespace("router")
	router.Forward()
	for n, want := range map[*Namespace]string{plain: "0\n0\n", router: "1\n1\n"} {
		if got := n.Run("sysctl", "-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"); got != want {
			t.Errorf("namespace %s forwards: %q, want %q", n.name, got, want)
		}
	}
}

func TestRunInNamespace(t *testing.T) {
	lab := New(t)
	a := lab.Namespace("a")
	a.Bridge("br0")
	a.Tap("tap0")
	a.Attach("tap0", "br0")
	if out := a.Run("ip", "-br", "link"); !strings.Contains(out, "br0") || !strings.Contains(out, "tap0") {
		t.Errorf("ip shows %q, not br0 and tap0", out)
	}
	outside := inode(t)
	a.Do(func() {
		if inode(t) == outside {
			t.Error("Do runs outside of the namespace")
		}
		inside := inode(t)
		lab.Namespace("b").Do(func() {})
		if inode(t) != inside {
			t.Error("Do inside of Do doesn't come back to the outer one")
		}
	})
	if inode(t) != outside {
		t.Error("Do doesn't come back")
	}
}

func inode(t *testing.T) uint64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

func TestNothingStays(t *testing.T) {
	var dir string
	t.Run("a lab", func(t *testing.T) {
		dir = New(t).Namespace("a").lab.dir
	})
	mounted, err := mounts.Read()
	if err != nil {
		t.Fatal(err)
	}
	if left := mounted.Within(dir); len(left) != 0 {
		t.Errorf("still mounted: %v", left)
	}
}
