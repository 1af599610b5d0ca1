//go:build boot

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/bootstrap/node/e2e/timeserver"
	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/pkg/explorer"
)

// The site's services, beside the explorer.
const (
	hubIP     = "203.0.113.1"
	registry  = hubIP + ":5000"
	server    = "docker://" + registry + "/server:1"
	wireGuard = 5000
	firstZDB  = 9900
	door      = 9178
)

// site is a small internet with an explorer, a registry with an image, a time server, and a laptop.
type site struct {
	*nodetest.Internet
	laptop *netlab.Namespace
	random *rand.Rand
	known  []string
	// images and clock are the registry and the time server, which cutOff ends.
	images *http.Server
	clock  net.PacketConn
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Internet: nodetest.NewInternet(t, built.Binaries), random: rand.New(rand.NewPCG(*seed, 0))}
	s.laptop = s.Host("laptop", "203.0.113.50")
	images, err := imagetest.StartRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { images.Close() })
	if _, err := imagetest.Server().Push(t.Context(), images.Host+"/server:1", remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	s.images = s.serve(registry, images)
	s.startClock()
	return s
}

// serve has the hub serve HTTP at an address.
func (s *site) serve(address string, handler http.Handler) *http.Server {
	s.Helper()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	listener := s.Hub.ListenTCP(address)
	go func() { _ = server.Serve(listener) }()
	s.Cleanup(func() { server.Close() })
	return server
}

// startClock starts the time server.
func (s *site) startClock() {
	s.Helper()
	s.clock = s.Hub.ListenUDP(hubIP + ":123")
	go timeserver.Serve(s.clock, time.Now)
}

// cutOff ends the explorer, the registry and the time server.
func (s *site) cutOff() {
	s.Helper()
	s.StopExplorer()
	s.must(s.images.Close())
	s.must(s.clock.Close())
}

// node is a machine with the image, and what the explorer knows of it.
type node struct {
	s    *site
	m    *machine.Machine
	hand hand
	ip   string
	// Node has the ID only: this node isn't a process of this machine.
	*nodetest.Node
	// disks are the empty ones, foreign is another with somebody's files, whose checksum is sum.
	disks        []string
	foreign, sum string
}

// diskless reports whether the node has no disks.
func (n *node) diskless() bool { return len(n.disks) == 0 }

// options say how a node differs from others.
type options struct {
	boot machine.Boot
	// bridged nodes are in the site's network; the others behind QEMU's NAT, at the address of a host of the site.
	bridged bool
	// more are further lines of its croft.yaml.
	more string
	// bootFile is what DHCP names as the boot file.
	bootFile string
	// watchdog has the chipset's watchdog start the machine again when it hangs, as on real ones. By QEMU's default it does nothing: a test whose
	// machine hangs fails, and keeps what its processors do.
	watchdog bool
	// diskless nodes have no disk but those with the settings and the agent, which can't be written to.
	diskless bool
}

// direct boots the kernel without a boot loader, with croft.iso as a disk.
func direct(t *testing.T) machine.Boot {
	t.Helper()
	clock, err := vmguest.SteadyClock()
	if err != nil {
		t.Fatal(err)
	}
	return machine.Boot{
		Kernel: filepath.Join(*image, "vmlinuz"), Initrd: filepath.Join(*image, "initrd"),
		Append: "console=tty0 console=ttyS0,115200 croft.slot=a " + clock,
	}
}

// medium is a copy of a boot medium, on which the kernel is told the clock.
func (s *site) medium(name string) string {
	s.Helper()
	clock, err := vmguest.SteadyClock()
	if err != nil {
		s.Fatal(err)
	}
	to := s.Path(name)
	if err := machine.Copy(to, filepath.Join(*image, name)); err != nil {
		s.Fatal(err)
	}
	if err := machine.AddArguments(to, clock); err != nil {
		s.Logf("the kernel isn't told the clock: %v", err)
	}
	return to
}

// node makes a node that is switched off.
func (s *site) node(name, ip string, o options) *node {
	s.Helper()
	n := &node{s: s, ip: ip, hand: handAt(s, ip)}
	c := machine.Config{Name: name, Dir: s.Path(name), Keep: *keep, Boot: o.boot}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		s.Fatal(err)
	}
	settings := map[string]string{
		"explorer": s.URL, "disks": "empty", "allow-private": nodetest.Public, "image-plain-http": registry, "ntp-servers": hubIP,
		"heartbeat": "5s", "poll-wait": "5s", "log-level": "debug", "test": agentLabel,
	}
	if o.bridged {
		c.Namespace, c.Network = s.Hub, machine.Network{Bridge: "br0", MAC: "52:54:00:00:00:" + ip[strings.LastIndexByte(ip, '.')+1:]}
		settings["address"], settings["gateway"] = ip+"/24", hubIP
	} else {
		c.Namespace, c.Network = s.Host(name, ip), machine.Network{TCP: []int{machine.AgentPort, door, firstZDB, firstZDB + 1}, UDP: []int{wireGuard}}
	}
	if o.diskless {
		c.MemoryMiB = 12288 // a quarter of it is the pool
	} else {
		c.Disks = n.makeDisks(c.Dir)
	}
	c.Disks = append(c.Disks, machine.Disk{Serial: "agent", Image: built.agent, ReadOnly: true})
	config := s.write(filepath.Join(c.Dir, "config"), "croft.yaml", lines(settings)+o.more)
	if strings.HasSuffix(o.boot.Image, ".img") {
		s.must(machine.AddSettings(s.Context(), o.boot.Image, filepath.Join(config, "croft.yaml")))
	} else {
		disk := filepath.Join(c.Dir, "config.iso")
		s.must(machine.ISO(s.Context(), disk, "croft-config", config))
		c.Disks = append(c.Disks, machine.Disk{Serial: "config", Image: disk, ReadOnly: true})
	}
	if o.watchdog {
		c.More = append(c.More, "-global", "ICH9-LPC.noreboot=off")
	}
	c.Network.BootFile = o.bootFile
	if o.boot.Initrd != "" {
		c.Disks = append(c.Disks, machine.Disk{Serial: "boot", Image: filepath.Join(*image, "croft.iso"), ReadOnly: true})
	}
	n.m = machine.New(s.TB, c)
	s.Cleanup(n.keepLogs)
	return n
}

// keepLogs keeps the logs of a node of a test that has failed.
func (n *node) keepLogs() {
	if !n.s.Failed() || *keep == "" || !n.m.Running() {
		return
	}
	folder := filepath.Join(*keep, strings.ReplaceAll(n.s.Name(), "/", "-"), n.ip)
	if err := n.hand.keepLogs(folder); err != nil {
		n.s.Logf("no logs of the node at %s: %v", n.ip, err)
		return
	}
	n.s.Logf("logs of the node at %s are in %s", n.ip, folder)
}

// makeDisks makes two empty disks and one with somebody's files.
func (n *node) makeDisks(dir string) (out []machine.Disk) {
	n.s.Helper()
	for i := range 2 {
		n.disks = append(n.disks, filepath.Join(dir, fmt.Sprintf("disk%d.img", i)))
		n.s.must(machine.Sparse(n.disks[i], 32<<30))
		out = append(out, machine.Disk{Serial: fmt.Sprintf("empty%d", i), Image: n.disks[i], Careless: true})
	}
	n.makeForeign(dir)
	return append(out, machine.Disk{Serial: "foreign", Image: n.foreign})
}

// makeForeign makes a disk with somebody's files.
func (n *node) makeForeign(dir string) {
	n.s.Helper()
	n.foreign = filepath.Join(dir, "foreign.img")
	n.s.must(machine.Foreign(n.s.Context(), n.foreign, 256<<20, n.s.write(filepath.Join(dir, "photos"), "holiday.jpg", "the sea")))
	var err error
	n.sum, err = machine.Sum(n.foreign)
	n.s.must(err)
}

// untouched holds that the foreign disk has every bit that it had; the node is off.
func (n *node) untouched() {
	n.s.Helper()
	sum, err := machine.Sum(n.foreign)
	n.s.must(err)
	if sum != n.sum {
		n.s.Error("the disk with somebody's file system was written")
	}
}

func lines(settings map[string]string) string {
	var out []string
	for name, value := range settings {
		out = append(out, fmt.Sprintf("%s: %q\n", name, value))
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// write makes a folder with one file, and returns the folder.
func (s *site) write(folder, name, content string) string {
	s.Helper()
	s.must(os.MkdirAll(folder, 0o755))
	s.must(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
	return folder
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// until waits until try succeeds; it shows why it didn't.
func (s *site) until(what string, try func() error) {
	s.Helper()
	s.within(patience, what, try)
}

func (s *site) within(limit time.Duration, what string, try func() error) {
	s.Helper()
	began, told := time.Now(), time.Now()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Since(began) > limit {
			s.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			s.Logf("%s: not yet after %s: %v", what, since(began), err)
		}
		<-time.After(250 * time.Millisecond)
	}
}

// register waits until the explorer knows a new node, which is this one, and returns how long its kernel has run then.
func (n *node) register() time.Duration {
	n.s.Helper()
	began := time.Now()
	n.s.until("the explorer knows a new node", func() error {
		if !n.m.Running() {
			n.s.Fatal("the machine is off")
		}
		all, _, err := n.s.Client.Nodes(n.s.Context(), explorer.NodeFilter{}, explorer.ListPage{})
		if err != nil {
			return err
		}
		for _, one := range all {
			if !slices.Contains(n.s.known, one.NodeID) {
				n.s.known = append(n.s.known, one.NodeID)
				n.Node = &nodetest.Node{ID: one.NodeID}
				return nil
			}
		}
		return fmt.Errorf("it knows %d nodes", len(all))
	})
	seen := time.Now()
	n.agent()
	up := n.hand.uptime() - time.Since(seen)
	n.s.Logf("node %s is registered %s after it was switched on, %s after the start of its kernel", n.ID, since(began), up.Round(100*time.Millisecond))
	return up
}

// agent waits until the agent answers, which init starts once the node is ready.
func (n *node) agent() {
	n.s.Helper()
	n.s.until("the node is ready", func() error {
		if is, ready := n.hand.ready(); !ready {
			return fmt.Errorf("it answers %s", is)
		}
		return nil
	})
}

// settled waits until the node has as many workloads as it should and nothing to do, and returns its status.
func (n *node) settled(want map[string]int64) nodetest.Status {
	n.s.Helper()
	var is nodetest.Status
	n.s.until("the node has settled", func() (err error) {
		if is, err = n.hand.status(); err != nil {
			return err
		}
		got := map[string]int64{
			"network": is.Counters.Network, "volume": is.Counters.Volume, "container": is.Counters.Container, "zdb": is.Counters.ZDB,
		}
		for kind, count := range got {
			if count != want[kind] {
				return fmt.Errorf("it has workloads %v, want %v", got, want)
			}
		}
		if is.Undelivered > 0 || len(is.Orphans) > 0 || !is.Adopted {
			return fmt.Errorf("undelivered results: %d, orphans: %v, adopted: %v", is.Undelivered, is.Orphans, is.Adopted)
		}
		return nil
	})
	return is
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
