package handover_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/handover"
)

func TestAListenerIsHandedOverAndTakenBack(t *testing.T) {
	z := newZDB(t, path(t))
	c := dial(t, z.path)
	if had := c.Listeners(); len(had) != 0 {
		t.Fatalf("it has %v", had)
	}
	f, address := listen(t)
	must(t, c.Give(soon(t), f))
	if said := ask(t, address); said != "zdb" {
		t.Errorf("%q answers", said)
	}
	second, other := listen(t)
	must(t, c.Give(soon(t), second))
	if said := ask(t, other); said != "zdb" {
		t.Errorf("%q answers", said)
	}
	// The node restarts: its descriptors are closed.
	want := []uint64{cookie(t, f), cookie(t, second)}
	must(t, c.Close())
	f.Close()
	second.Close()
	if said := ask(t, address); said != "zdb" {
		t.Errorf("%q answers", said)
	}
	again := dial(t, z.path)
	back := again.Listeners()
	if len(back) != 2 || cookie(t, back[0]) != want[0] || cookie(t, back[1]) != want[1] {
		t.Fatalf("it gave back %v", back)
	}
	if more := again.Listeners(); len(more) != 0 {
		t.Errorf("asked twice: %v", more)
	}
	// One that is shut down is nobody's any more, though both have it open.
	shutDown(t, back[1])
	last := dial(t, z.path).Listeners()
	if len(last) != 1 || cookie(t, last[0]) != want[0] {
		t.Errorf("it has %v", last)
	}
	for _, f := range append(back, last...) {
		f.Close()
	}
}

// TestListenerStaysNonBlocking: the zdb's loop would hang in accept.
func TestListenerStaysNonBlocking(t *testing.T) {
	z := newZDB(t, path(t))
	c := dial(t, z.path)
	f, _ := listen(t)
	must(t, c.Give(soon(t), f))
	for _, one := range dial(t, z.path).Listeners() {
		flags := fd(t, one, func(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0) })
		if flags&unix.O_NONBLOCK == 0 {
			t.Errorf("flags are %#x", flags)
		}
		one.Close()
	}
}

// others are open files that aren't listening stream sockets.
func others(t *testing.T) map[string]*os.File {
	t.Helper()
	socketOf := func(domain, kind int) *os.File {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		return os.NewFile(uintptr(fd), "socket")
	}
	shut, _ := listen(t)
	shutDown(t, shut)
	packets := socketOf(unix.AF_UNIX, unix.SOCK_SEQPACKET)
	must(t, unix.Bind(int(packets.Fd()), &unix.SockaddrUnix{Name: fmt.Sprintf("@croft-%d-%d", os.Getpid(), packets.Fd())}))
	must(t, unix.Listen(int(packets.Fd()), 1))
	r, w, err := os.Pipe()
	must(t, err)
	file, err := os.Open("/proc/self/exe")
	must(t, err)
	out := map[string]*os.File{
		"a TCP socket that doesn't listen": socketOf(unix.AF_INET, unix.SOCK_STREAM), "a UDP socket": socketOf(unix.AF_INET, unix.SOCK_DGRAM),
		"a packet listener": packets, "a netlink socket": socketOf(unix.AF_NETLINK, unix.SOCK_RAW),
		"a pipe": r, "a pipe's end": w, "a file": file, "a listener that was shut down": shut,
	}
	t.Cleanup(func() {
		for _, f := range out {
			f.Close()
		}
	})
	return out
}

func TestNonListenersAreRefused(t *testing.T) {
	z := newZDB(t, path(t))
	c := dial(t, z.path)
	wrong := others(t)
	before := descriptors(t)
	for name, f := range wrong {
		err := c.Give(soon(t), f)
		if err == nil || !strings.HasPrefix(err.Error(), "cannot hand a listener to the zdb at "+z.path+": it says: cannot take a listener: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantDescriptors(t, before)
	// The connection goes on.
	f, address := listen(t)
	must(t, c.Give(soon(t), f))
	if said := ask(t, address); said != "zdb" {
		t.Errorf("%q answers", said)
	}
}

func TestRefusalText(t *testing.T) {
	z := newZDB(t, path(t))
	c := dial(t, z.path)
	f, _ := listen(t)
	before := descriptors(t)
	z.refuses(errors.New("no\nroom " + strings.Repeat("x", 10_000)))
	err := c.Give(soon(t), f)
	if err == nil || !strings.Contains(err.Error(), "it says: no room xxx") || len(err.Error()) > 1000 {
		t.Errorf("it is %v", err)
	}
	if _, err := handover.Dial(soon(t), z.path); err == nil || !strings.Contains(err.Error(), "it says: no room xxx") {
		t.Errorf("it is %v", err)
	}
	wantDescriptors(t, before)
}

func TestEndOfZDBIsSeen(t *testing.T) {
	z := newZDB(t, path(t))
	c := dial(t, z.path)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait(context.Background()) }()
	z.stop()
	must(t, <-ended)
	if _, err := os.Lstat(z.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
	f, _ := listen(t)
	if err := c.Give(soon(t), f); err == nil {
		t.Error("it took a listener")
	}
	if _, err := handover.Dial(soon(t), z.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is %v", err)
	}
}

func TestWaitContext(t *testing.T) {
	z := newZDB(t, path(t))
	c := dial(t, z.path)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it is %v", err)
	}
}

func TestManyNodes(t *testing.T) {
	z := newZDB(t, path(t))
	before := descriptors(t)
	var all []*handover.Conn
	var err error
	for range 100 {
		var c *handover.Conn
		if c, err = handover.Dial(soon(t), z.path); err != nil {
			break
		}
		all = append(all, c)
	}
	if len(all) != 16 || err == nil || !strings.Contains(err.Error(), "there are too many") {
		t.Errorf("%d connections, then %v", len(all), err)
	}
	f, address := listen(t)
	must(t, all[7].Give(soon(t), f))
	if said := ask(t, address); said != "zdb" {
		t.Errorf("%q answers", said)
	}
	for _, c := range all {
		must(t, c.Close())
	}
	wantDescriptors(t, before+2) // the listener, here and there
	dial(t, z.path)
}

func TestManyRounds(t *testing.T) {
	z := newZDB(t, path(t))
	f, _ := listen(t)
	must(t, dial(t, z.path).Give(soon(t), f))
	before := descriptors(t)
	for range 200 {
		c, err := handover.Dial(soon(t), z.path)
		must(t, err)
		back := c.Listeners()
		if len(back) != 1 {
			t.Fatalf("it has %v", back)
		}
		if cookie(t, back[0]) != cookie(t, f) {
			t.Fatal("it gave back another one")
		}
		back[0].Close()
		must(t, c.Close())
	}
	wantDescriptors(t, before)
}

func TestBadConfigs(t *testing.T) {
	take := func(*os.File) error { return nil }
	list := func() ([]*os.File, error) { return nil, nil }
	for text, c := range map[string]handover.ServerConfig{
		"Path is empty":            {Take: take, Listeners: list},
		"Take and Listeners":       {Path: path(t), Listeners: list},
		"are both needed":          {Path: path(t), Take: take},
		"cannot listen on /nowher": {Path: "/nowhere/x.sock", Take: take, Listeners: list},
	} {
		if _, err := handover.Listen(c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want it to say %q", err, text)
		}
	}
}

func TestSocketMode(t *testing.T) {
	z := newZDB(t, path(t))
	info, err := os.Lstat(z.path)
	must(t, err)
	if info.Mode() != os.ModeSocket|0o600 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		t.Errorf("it is %s", info.Mode())
	}
}

// TestDialWithoutServer fails at once.
func TestDialWithoutServer(t *testing.T) {
	start := time.Now()
	if _, err := handover.Dial(soon(t), path(t)); !errors.Is(err, os.ErrNotExist) || time.Since(start) > patience/2 {
		t.Errorf("it is %v after %s", err, time.Since(start))
	}
}
