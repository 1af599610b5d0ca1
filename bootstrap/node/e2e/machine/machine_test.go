package machine_test

import (
	"context"
	"image/png"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/internal/grubenv"
	"github.com/croft-edge/croft/internal/guest/fslabel"
	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/pkg/nocloud"
)

const (
	mac  = "52:54:00:00:00:01"
	late = 6 * time.Minute
)

// smallGuest is a machine with the guest of package vmguest, and a careless disk.
func smallGuest(t *testing.T, bridged bool) (*machine.Machine, *vmguest.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config")
	f, err := os.Create(config)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := nocloud.Write(f, nocloud.Config{InstanceID: "m", Hostname: "m", Interfaces: []nocloud.Interface{{
		MAC: hardware, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.2.15/24")}, Gateways: []netip.Addr{netip.MustParseAddr("10.0.2.2")},
	}}}); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	if err := machine.Sparse(disk, 8<<20); err != nil {
		t.Fatal(err)
	}
	clock, err := vmguest.SteadyClock()
	if err != nil {
		t.Fatal(err)
	}
	guest := vmguest.Build(t)
	host := netlab.New(t).Namespace("host")
	network, address := machine.Network{TCP: []int{80}, MAC: mac}, "127.0.0.1"
	if bridged {
		host.Bridge("br0")
		host.Addr("br0", "10.0.2.2/24")
		network, address = machine.Network{Bridge: "br0", MAC: mac}, "10.0.2.15"
	}
	m := machine.New(t, machine.Config{
		Name: "m", Dir: dir, Namespace: host, MemoryMiB: 192,
		Boot:    machine.Boot{Kernel: guest.Kernel, Initrd: guest.Initrd, Append: "console=ttyS0 panic=1 " + vmguest.CheapBoot + " " + clock},
		Disks:   []machine.Disk{{Serial: "config", Image: config, ReadOnly: true}, {Serial: "data", Image: disk, Careless: true}},
		Network: network,
	})
	return m, vmguest.NewClient(host.Path(), address)
}

// TestPowerCut holds what the tests of the node rely on: flushed data outlive a power cut, the screen can be pictured, and the power
// button switches the machine off.
func TestPowerCut(t *testing.T) {
	m, client := smallGuest(t, false)
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	for boot := range 2 {
		m.PowerOn()
		m.Until(late, "guest ready m")
		is, err := client.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if is.Boots != boot+1 {
			t.Errorf("the guest has booted %d times, want %d", is.Boots, boot+1)
		}
		if boot == 0 {
			if err := client.WriteDisk(ctx, 1<<20, []byte("flushed")); err != nil {
				t.Fatal(err)
			}
			m.Cut(rand.New(rand.NewPCG(1, 2)))
			if m.Running() {
				t.Error("the machine runs after a power cut")
			}
		}
	}
	got, err := client.ReadDisk(ctx, 1<<20, 7)
	if err != nil || string(got) != "flushed" {
		t.Errorf("after a power cut the disk has %q (%v)", got, err)
	}
	picture := filepath.Join(t.TempDir(), "screen.png")
	m.Picture(picture)
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("the screen's picture is none: %v", err)
	}
	if text := m.Processors(); strings.Count(text, "RIP=") < 3 {
		t.Errorf("the processors are shown without their registers:\n%s", text)
	}
	m.PowerButton(late)
	if m.Running() {
		t.Error("the machine runs after its power button was pressed")
	}
}

// TestSwitch has a machine on a bridge, also after a power cut.
func TestSwitch(t *testing.T) {
	m, client := smallGuest(t, true)
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	for range 2 {
		m.PowerOn()
		if _, err := client.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		m.Cut(rand.New(rand.NewPCG(1, 2)))
	}
}

// TestArgumentsForTheKernel has them go where GRUB reads them.
func TestArgumentsForTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		variable, was, want string
		more                map[string]string
	}{
		"a disk": {"args", "", "x=1 y=2", map[string]string{"slot": "a"}},
		"a CD":   {"cmdline", "quiet", "quiet x=1 y=2", nil},
	} {
		var b grubenv.Block
		for n, v := range c.more {
			if err := b.Set(n, v); err != nil {
				t.Fatal(err)
			}
		}
		if c.was != "" {
			if err := b.Set(c.variable, c.was); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		const at = 3<<20 - 512 // over the border of two pieces
		content := make([]byte, 4<<20)
		copy(content[at:], raw)
		copy(content[4096:], "# GRUB Environment Block\n\x00in GRUB's program")
		image := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(image, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := machine.AddArguments(image, "x=1 y=2"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if content, err = os.ReadFile(image); err != nil {
			t.Fatal(err)
		}
		after, err := grubenv.Parse(content[at : at+grubenv.Size])
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := after.Get(c.variable); got != c.want {
			t.Errorf("%s: %s is %q, want %q", name, c.variable, got, c.want)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := machine.Sparse(empty, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := machine.AddArguments(empty, "x"); err == nil {
		t.Error("an empty disk takes arguments for the kernel")
	}
}

// TestDisks has labels and files where the node looks for them.
func TestDisks(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "run"), []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	iso, foreign := filepath.Join(dir, "iso"), filepath.Join(dir, "foreign")
	if err := machine.ISO(t.Context(), iso, "croft-config", files); err != nil {
		t.Fatal(err)
	}
	if err := machine.Foreign(t.Context(), foreign, 64<<20, files); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]fslabel.Found{iso: {Kind: fslabel.ISO, Label: "croft-config"}, foreign: {Kind: fslabel.Ext4, Label: "photos"}} {
		if got, err := fslabel.Of(file); err != nil || got != want {
			t.Errorf("the file system is %+v (%v), want %+v", got, err, want)
		}
	}
	before, err := machine.Sum(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := machine.Sum(foreign); err != nil || again != before || len(before) != 64 {
		t.Errorf("the checksum is %q, then %q (%v)", before, again, err)
	}
}
