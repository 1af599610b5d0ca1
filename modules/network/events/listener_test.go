package events_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/modules/network/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is what a listener has called.
type heard struct {
	mu          sync.Mutex
	began, lost int
	all         []events.Event
	// hold, while it is open, keeps Changed from returning.
	hold chan struct{}
}

func (h *heard) changed(e events.Event) {
	h.mu.Lock()
	h.all = append(h.all, e)
	hold := h.hold
	h.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

func (h *heard) counts() (began, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.began, h.lost
}

// has reports whether an event like e was heard since n.
func (h *heard) has(n int, e events.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all[n:] {
		if one == e {
			return true
		}
	}
	return false
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// listen runs a listener until the test ends.
func listen(t *testing.T, watched func(string) bool) *heard {
	t.Helper()
	h := &heard{}
	count := func(n *int) func() { return func() { h.mu.Lock(); *n++; h.mu.Unlock() } }
	l := events.New(events.Config{Watched: watched, Began: count(&h.began), Lost: count(&h.lost), Changed: h.changed, Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	until(t, "it listens", func() bool { began, _ := h.counts(); return began > 0 })
	return h
}

func sh(t *testing.T, namespace, command string) {
	t.Helper()
	line := strings.Fields(command)
	if namespace != "" {
		line = append([]string{"nsenter", "--net=" + namespace}, line...)
	}
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func TestChangesInOtherNamespaces(t *testing.T) {
	lab := netlab.New(t)
	one, other := lab.Namespace("one"), lab.Namespace("other")
	id, err := events.IDOf(one.Path())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := events.IDOf(one.Path()); err != nil || again != id {
		t.Fatalf("it has the IDs %d and %d, %v", id, again, err)
	}
	if _, err := events.IDOf("/nowhere"); err == nil {
		t.Error("there is no namespace, and it has an ID")
	}
	h := listen(t, func(string) bool { return false })
	for _, c := range []struct {
		run  string
		want events.Event
	}{
		{"ip link add br0 type bridge", events.Event{Namespace: id, Link: "br0"}},
		{"ip addr add 10.1.1.1/24 dev br0", events.Event{Namespace: id}},
		{"ip link set br0 up", events.Event{Namespace: id, Link: "br0"}},
		{"ip route add 10.9.0.0/16 via 10.1.1.2", events.Event{Namespace: id}},
		{"tc qdisc add dev br0 root tbf rate 1mbit burst 10k latency 10ms", events.Event{Namespace: id}},
		{"nft add table inet croft", events.Event{Namespace: id}},
		{"nft flush ruleset", events.Event{Namespace: id}},
		{"ip link del br0", events.Event{Namespace: id, Link: "br0"}},
	} {
		time.Sleep(50 * time.Millisecond) // what the one before has caused
		n := h.count()
		sh(t, one.Path(), c.run)
		until(t, c.run, func() bool { return h.has(n, c.want) })
	}
	n := h.count()
	sh(t, other.Path(), "ip link add br0 type bridge")
	sh(t, one.Path(), "ip link add br1 type bridge")
	until(t, "the bridge", func() bool { return h.has(n, events.Event{Namespace: id, Link: "br1"}) })
	for _, e := range h.all[n:] {
		if e.Namespace != id && e.Namespace != events.Own {
			t.Errorf("of a namespace without an ID came %+v", e)
		}
	}
}

func TestOwnLinksAreToldByName(t *testing.T) {
	name := fmt.Sprintf("crt%d", time.Now().UnixNano()%1e9)
	h := listen(t, func(link string) bool { return link == name })
	sh(t, "", "ip link add "+name+" type bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	event := events.Event{Namespace: events.Own, Link: name}
	until(t, "it appears", func() bool { return h.has(0, event) })
	for _, run := range []string{"ip addr add 192.0.2.77/32 dev " + name, "ip link set up dev " + name, "ip link del " + name} {
		time.Sleep(50 * time.Millisecond)
		n := h.count()
		sh(t, "", run)
		until(t, run, func() bool { return h.has(n, event) })
	}
	for _, e := range h.all {
		if e.Namespace == events.Own && e.Link != name && !e.Ended {
			t.Errorf("another link is told: %+v", e)
		}
	}
}

// A link that was there before is known by its index.
func TestOwnLinksOfBefore(t *testing.T) {
	name := fmt.Sprintf("crb%d", time.Now().UnixNano()%1e9)
	sh(t, "", "ip link add "+name+" type bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	h := listen(t, func(link string) bool { return link == name })
	sh(t, "", "ip addr add 192.0.2.78/32 dev "+name)
	until(t, "its address", func() bool { return h.has(0, events.Event{Namespace: events.Own, Link: name}) })
}

// More changes than the socket's queue holds are told as lost, and hearing goes on.
func TestAnOverrunIsLost(t *testing.T) {
	ns := netlab.New(t).Namespace("one")
	id, err := events.IDOf(ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	h := listen(t, func(string) bool { return false })
	hold := make(chan struct{})
	h.mu.Lock()
	h.hold = hold
	h.mu.Unlock()
	sh(t, ns.Path(), "ip link add d0 type bridge")
	cmd := exec.Command("nsenter", "--net="+ns.Path(), "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Repeat("link set d0 mtu 1400\nlink set d0 mtu 1500\n", 1000))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h.mu.Lock()
	h.hold = nil
	h.mu.Unlock()
	close(hold)
	until(t, "the overrun", func() bool { _, lost := h.counts(); return lost > 0 })
	until(t, "it goes on", func() bool {
		n := h.count()
		sh(t, ns.Path(), "ip link add d1 type bridge")
		sh(t, ns.Path(), "ip link del d1")
		time.Sleep(50 * time.Millisecond)
		return h.has(n, events.Event{Namespace: id, Link: "d1"})
	})
	if began, lost := h.counts(); began < lost {
		t.Errorf("began %d times, lost %d times", began, lost)
	}
}

// A link that is watched only after the kernel has told that it is there is known, too.
func TestOwnLinksThatAreWatchedLater(t *testing.T) {
	name := fmt.Sprintf("crl%d", time.Now().UnixNano()%1e9)
	var seen, watched atomic.Bool
	h := listen(t, func(link string) bool {
		if link == name {
			seen.Store(true)
		}
		return link == name && watched.Load()
	})
	sh(t, "", "ip link add "+name+" type bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	until(t, "the link's notice is handled", seen.Load)
	watched.Store(true)
	sh(t, "", "ip addr add 192.0.2.79/32 dev "+name)
	until(t, "its address", func() bool { return h.has(0, events.Event{Namespace: events.Own, Link: name}) })
}

// A link whose notice was lost in an overrun is known after that.
func TestOwnLinksOfAnOverrun(t *testing.T) {
	ns := netlab.New(t).Namespace("one")
	if _, err := events.IDOf(ns.Path()); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("cro%d", time.Now().UnixNano()%1e9)
	h := listen(t, func(link string) bool { return link == name })
	hold := make(chan struct{})
	h.mu.Lock()
	h.hold = hold
	h.mu.Unlock()
	sh(t, ns.Path(), "ip link add d0 type bridge")
	until(t, "it is held up", func() bool { return h.count() > 0 })
	cmd := exec.Command("nsenter", "--net="+ns.Path(), "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Repeat("link set d0 mtu 1400\nlink set d0 mtu 1500\n", 1000))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sh(t, "", "ip link add "+name+" type bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	h.mu.Lock()
	h.hold = nil
	h.mu.Unlock()
	close(hold)
	until(t, "it begins anew", func() bool { began, lost := h.counts(); return lost > 0 && began > lost })
	n, event := h.count(), events.Event{Namespace: events.Own, Link: name}
	if h.has(0, event) {
		t.Fatal("the link's notice wasn't lost: this test shows nothing")
	}
	sh(t, "", "ip addr add 192.0.2.80/32 dev "+name)
	until(t, "its address", func() bool { return h.has(n, event) })
}
