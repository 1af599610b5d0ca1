package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/modules/vm/discard"
	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
)

// This binary is also the program that becomes QEMU, a discarder, and an agent that is killed.
const (
	become   = "become-vm"
	discards = "pass-discards"
	agent    = "be-agent"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == become:
		fmt.Fprintln(os.Stderr, launch.Become())
		os.Exit(1)
	case len(os.Args) > 1 && os.Args[1] == discards:
		if err := discard.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) > 2 && os.Args[1] == agent:
		fmt.Fprintln(os.Stderr, beAgent(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// patience is for guests that wait for the processors.
const patience = 4 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// world is a run folder, a control group and a network namespace with a bridge, for VMs of one test.
type world struct {
	t      *testing.T
	dir    string
	cgroup string
	lab    *netlab.Namespace
	guest  vmguest.Guest
}

// The addresses of the bridge and of the first guest.
const (
	gateway      = "10.9.0.1"
	guestAddress = "10.9.0.2"
	guestMAC     = "02:00:00:09:00:02"
	tapName      = "tap-vm"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-vm-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	w := &world{t: t, dir: dir, cgroup: "/" + filepath.Base(dir), guest: vmguest.Build(t)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, cgroup.End(ctx, w.cgroup))
		group, err := cgroup.Beside(launch.ServiceGroup(machine.Files(filepath.Join(dir, "run", "vm", "7-1"))))
		must(t, err)
		group.Remove()
	})
	w.lab = netlab.New(t).Namespace("vm")
	w.lab.Bridge("br")
	w.lab.Addr("br", gateway+"/24")
	w.plug()
	w.lab.Up("br")
	return w
}

// plug makes the tap device, and connects it to the bridge.
func (w *world) plug() {
	w.t.Helper()
	w.lab.Do(func() {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = tapName
		must(w.t, netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_NO_PI}))
	})
	w.lab.Attach(tapName, "br")
	w.lab.Up(tapName)
}

// config is the module's configuration.
func (w *world) config() Config {
	return Config{
		RunDir: filepath.Join(w.dir, "run"), Command: []string{"/proc/self/exe", become}, Discarder: []string{"/proc/self/exe", discards}, Accelerator: qemu.TCG,
		Cgroup: w.cgroup, Logs: fifos{filepath.Join(w.dir, "logs")}, PowerOff: patience, Answer: patience, Log: zerolog.New(zerolog.NewTestWriter(w.t)),
	}
}

func (w *world) open(c Config) *Module {
	w.t.Helper()
	m, err := Open(c)
	must(w.t, err)
	w.t.Cleanup(m.Close)
	return m
}

// spec is a small VM with a data disk and a config disk that has a secret.
func (w *world) spec() node.VMSpec {
	w.t.Helper()
	disk := filepath.Join(w.dir, "disk")
	if _, err := os.Stat(disk); err != nil {
		must(w.t, os.WriteFile(disk, nil, 0o600))
		must(w.t, os.Truncate(disk, 8<<20))
	}
	return node.VMSpec{
		ID: "7-1", User: "user", CPU: 1, Memory: 128 << 20, Kernel: w.guest.Kernel, Initrd: w.guest.Initrd, Arguments: "quiet panic=1",
		Disks: []node.VMDisk{{Path: disk, Serial: "data"}},
		Tap:   node.VMTap{Namespace: w.lab.Path(), Device: tapName, MAC: guestMAC},
		Hash:  strings.Repeat("a", 64), Config: w.configDisk(),
	}
}

const secret = "the cluster's secret"

func (w *world) configDisk() []byte {
	w.t.Helper()
	mac, err := net.ParseMAC(guestMAC)
	must(w.t, err)
	var image bytes.Buffer
	must(w.t, nocloud.Write(&image, nocloud.Config{
		InstanceID: "7-1", Hostname: "small", UserData: []byte("#cloud-config\npassword: " + secret + "\n"),
		Interfaces: []nocloud.Interface{{MAC: mac, Addresses: []netip.Prefix{netip.MustParsePrefix(guestAddress + "/24")}, Gateways: []netip.Addr{netip.MustParseAddr(gateway)}}},
	}))
	return image.Bytes()
}

func (w *world) client() *vmguest.Client { return vmguest.NewClient(w.lab.Path(), guestAddress) }

// fifos are logs: a FIFO for each VM. The test reads them.
type fifos struct{ dir string }

func (f fifos) path(id string) string { return filepath.Join(f.dir, id) }

// Open implements Logs.
func (f fifos) Open(_ context.Context, id, _ string) (*os.File, error) {
	if err := f.make(id); err != nil {
		return nil, err
	}
	return os.OpenFile(f.path(id), os.O_WRONLY, 0)
}

func (f fifos) make(id string) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mkfifo(f.path(id), 0o600); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}

// Drop implements Logs.
func (f fifos) Drop(_ context.Context, id string) error { return os.RemoveAll(f.path(id)) }

// console collects what a VM writes.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// read reads the FIFO of a VM from now on. It is held open for writing too, so that it has no end.
func (w *world) read(id string) *console {
	w.t.Helper()
	logs := fifos{filepath.Join(w.dir, "logs")}
	must(w.t, logs.make(id))
	file, err := os.OpenFile(logs.path(id), os.O_RDWR, 0)
	must(w.t, err)
	c := &console{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := file.Read(buffer)
			c.mu.Lock()
			c.text.Write(buffer[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	w.t.Cleanup(func() { _ = file.Close(); <-done })
	return c
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// order is what an agent is started with.
type order struct {
	Dir, Cgroup string
	Spec        node.VMSpec
}

// startAgent starts an agent in a process of its own, which runs a VM and then waits to be killed.
func (w *world) startAgent(spec node.VMSpec) *exec.Cmd {
	w.t.Helper()
	cmd := w.prepareAgent(spec)
	out, err := cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	w.t.Cleanup(func() { _ = cmd.Process.Kill() })
	var ready [1]byte
	if _, err := out.Read(ready[:]); err != nil {
		w.t.Fatalf("the agent has ended: %v", err)
	}
	return cmd
}

func (w *world) prepareAgent(spec node.VMSpec) *exec.Cmd {
	w.t.Helper()
	path := filepath.Join(w.dir, "order")
	raw, err := json.Marshal(order{w.dir, w.cgroup, spec})
	must(w.t, err)
	must(w.t, os.WriteFile(path, raw, 0o600))
	cmd := exec.CommandContext(w.t.Context(), "/proc/self/exe", agent, path)
	cmd.Stderr = os.Stderr
	return cmd
}

func beAgent(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	m, err := Open(Config{
		RunDir: filepath.Join(o.Dir, "run"), Command: []string{"/proc/self/exe", become}, Discarder: []string{"/proc/self/exe", discards}, Accelerator: qemu.TCG,
		Cgroup: o.Cgroup, Logs: fifos{filepath.Join(o.Dir, "logs")}, Answer: patience, Log: zerolog.New(os.Stderr),
	})
	if err != nil {
		return err
	}
	if _, err := m.Run(o.Spec); err != nil {
		return err
	}
	fmt.Println()
	time.Sleep(time.Hour)
	return nil
}
