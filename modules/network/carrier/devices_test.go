package carrier

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// linkThere reports whether the namespace has a link of that name.
func linkThere(t *testing.T, ns, name string) bool {
	t.Helper()
	there := false
	must(t, netns.Do(ns, func() error {
		_, err := netlink.LinkByName(name)
		there = err == nil
		return nil
	}))
	return there
}

func (s *site) deleteLink(t *testing.T) {
	t.Helper()
	must(t, netns.Do(s.tenant, func() error {
		l, err := netlink.LinkByName("wg0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}))
}

func wants(t *testing.T, kind node.Kind, text string, err error) {
	t.Helper()
	if node.KindOf(err) != kind || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%v (%s), want %s with %q", err, node.KindOf(err), kind, text)
	}
}

func TestRemovedDevicesLeaveNothing(t *testing.T) {
	s := newSite(t, 1)
	client := s.start(t)
	wants(t, node.NotExist, "there is none", client.RemoveDevice(t.Context(), "net1"))
	must(t, client.SetDevice(t.Context(), "net1", s.config()))
	if got := s.device(t); got.Broken != "" || got.ListenPort != s.port || got.PublicKey != s.key.Public() || got.ID != "net1" {
		t.Errorf("the device: %+v", got)
	}
	must(t, client.RemoveDevice(t.Context(), "net1"))
	wants(t, node.NotExist, "there is none", client.RemoveDevice(t.Context(), "net1"))
	if linkThere(t, s.tenant, "wg0") {
		t.Error("the link is still there")
	}
	must(t, netns.Do(s.ns, func() error {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(s.port)})
		if err == nil {
			_ = conn.Close()
		}
		return err
	}))
}

func TestRefusedConfigChangesNothing(t *testing.T) {
	s := newSite(t, 1)
	client := s.start(t)
	must(t, client.SetDevice(t.Context(), "net1", s.config()))
	var taken *net.UDPConn
	must(t, netns.Do(s.ns, func() (err error) {
		taken, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 31000})
		return err
	}))
	defer taken.Close()
	elsewhere := namespace(t, "elsewhere")
	must(t, netns.Do(elsewhere, func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "wg0"}})
	}))
	change := func(f func(*wireguard.Config)) wireguard.Config { c := s.config(); f(&c); return c }
	port := change(func(c *wireguard.Config) { c.ListenPort = 31000 })
	for _, c := range []struct {
		name, id string
		config   wireguard.Config
		kind     node.Kind
		text     string
	}{
		{"a port in use", "net1", port, node.Refused, "cannot use UDP port 31000 for wg0: it is in use"},
		{"a port in use, new device", "net2", change(func(c *wireguard.Config) { c.Namespace, c.Name, c.ListenPort = elsewhere, "wg1", 31000 }), node.Refused, "UDP port 31000"},
		{"the port of another device", "net2", change(func(c *wireguard.Config) { c.Namespace, c.Name = elsewhere, "wg1" }), node.Refused, fmt.Sprint(s.port)},
		{"no namespace", "net2", change(func(c *wireguard.Config) { c.Namespace = "/nowhere" }), node.NotExist, "/nowhere"},
		{"a link that is no tun", "net2", change(func(c *wireguard.Config) { c.Namespace, c.ListenPort = elsewhere, 0 }), node.Exist, "of type bridge"},
		{"another device's link", "net2", change(func(c *wireguard.Config) { c.ListenPort = 0 }), node.Exist, "cannot use link wg0: it is another network's"},
		{"no name", "net1", change(func(c *wireguard.Config) { c.Name = "" }), node.Invalid, "name"},
		{"no key", "net1", change(func(c *wireguard.Config) { c.PrivateKey = wireguard.Key{} }), node.Invalid, "private key"},
		{"no id", "", s.config(), node.Invalid, "id is missing"},
		{"a long id", strings.Repeat("x", 300), s.config(), node.Invalid, "at most 200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.device(t)
			wants(t, c.kind, c.text, client.SetDevice(t.Context(), c.id, c.config))
			if after := s.device(t); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("it is %+v now, was %+v", after, before)
			}
		})
	}
	if linkThere(t, elsewhere, "wg1") {
		t.Error("a refused device left its link")
	}
}

func TestALinkThatVanishedIsSeenAndMadeAnew(t *testing.T) {
	s := newSite(t, 1)
	client := s.start(t)
	must(t, client.SetDevice(t.Context(), "net1", s.config()))

	must(t, netns.Do(s.tenant, func() error {
		l, err := netlink.LinkByName("wg0")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(l)
	}))
	if got := s.device(t).Broken; !strings.Contains(got, "down") {
		t.Errorf("a link that is down: %q", got)
	}
	must(t, client.SetDevice(t.Context(), "net1", s.config()))
	if got := s.device(t).Broken; got != "" {
		t.Errorf("set again: %q", got)
	}

	s.deleteLink(t)
	until(t, "the link is missed", func() bool { return strings.Contains(s.device(t).Broken, "gone") })
	before := cpuTime(t, client.PID())
	select {
	case <-time.After(500 * time.Millisecond):
	case <-client.Done():
		t.Fatal("the carrier ended with the link")
	}
	if spent := cpuTime(t, client.PID()) - before; spent > 200*time.Millisecond {
		t.Errorf("without its link the device took %s of half a second", spent)
	}
	must(t, client.SetDevice(t.Context(), "net1", s.config()))
	if got := s.device(t); got.Broken != "" || got.ListenPort != s.port || !linkThere(t, s.tenant, "wg0") {
		t.Errorf("made anew: %+v", got)
	}
}

// cpuTime is the processor time that a process has used.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	must(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func TestADeviceFollowsToAnotherNamespaceBehindThePath(t *testing.T) {
	s := newSite(t, 1)
	client := s.start(t)
	must(t, client.SetDevice(t.Context(), "net1", s.config()))
	old := s.device(t).NamespaceInode
	must(t, netns.Remove(s.tenant))
	if got := s.device(t).Broken; !strings.Contains(got, "is gone") {
		t.Errorf("without its namespace: %q", got)
	}
	wants(t, node.NotExist, s.tenant, client.SetDevice(t.Context(), "net1", s.config()))
	must(t, netns.Make(s.tenant))
	if got := s.device(t).Broken; !strings.Contains(got, "another one") {
		t.Errorf("with another namespace: %q", got)
	}
	must(t, client.SetDevice(t.Context(), "net1", s.config()))
	if got := s.device(t); got.Broken != "" || got.NamespaceInode == old || !linkThere(t, s.tenant, "wg0") {
		t.Errorf("made anew: %+v, the old namespace was %d", got, old)
	}
}

// An open tun keeps its namespace alive: without its file it is let go.
func TestSweptDevicesLetTheirNamespaceGo(t *testing.T) {
	s := newSite(t, 1)
	d := newDevices(DefaultTuning(), zerolog.Nop())
	defer d.close()
	must(t, d.set("net1", s.config()))
	other := namespace(t, "other")
	c := s.config()
	c.Namespace, c.ListenPort = other, 0
	must(t, d.set("net2", c))
	// One end of a pair that goes with the namespace of the other.
	file, err := os.Open(s.tenant)
	must(t, err)
	must(t, netns.Do(s.ns, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "canary"}, PeerName: "canary", PeerNamespace: netlink.NsFd(int(file.Fd()))})
	}))
	must(t, file.Close())
	must(t, netns.Remove(s.tenant))
	d.sweepOnce()
	until(t, "the namespace goes", func() bool { return !linkThere(t, s.ns, "canary") })
	list := d.list("")
	if len(list) != 2 || list[0].Broken == "" || list[1].Broken != "" {
		t.Errorf("after the sweep: %+v", list)
	}
	must(t, d.remove("net1"))
	must(t, d.remove("net2"))
}

func TestDevicesLeaveNoGoroutines(t *testing.T) {
	s := newSite(t, 1)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := newDevices(DefaultTuning(), zerolog.Nop())
	for i := range 3 {
		must(t, d.set("net1", s.config(stranger(t))))
		must(t, d.set("net1", s.config()))
		if i > 0 {
			must(t, d.remove("net1"))
		}
	}
	must(t, d.set("net1", s.config()))
	s.deleteLink(t)
	until(t, "the device ends with its link", func() bool { return d.byID["net1"].closed() })
	must(t, d.set("net1", s.config()))
	d.close()
	if !linkThere(t, s.tenant, "wg0") {
		t.Error("the link went with the process")
	}
}

// What a killed carrier held is found by name; a process that has the link
// open keeps it.
func TestALinkInUseIsBusy(t *testing.T) {
	s := newSite(t, 1)
	fd := -1
	must(t, netns.Do(s.tenant, func() (err error) { fd, err = openTun("wg0"); return err }))
	defer unix.Close(fd)
	d := newDevices(DefaultTuning(), zerolog.Nop())
	defer d.close()
	wants(t, node.Busy, "wg0", d.set("net1", s.config()))
	if !linkThere(t, s.tenant, "wg0") {
		t.Error("the other's link was removed")
	}
}
