package vmguest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/pkg/nocloud"
)

const (
	// late is when a test gives a guest up; a busy machine is slow.
	late = 4 * time.Minute
	mac  = "52:54:00:12:34:56"
)

// world is a network with a guest, and its data disk.
type world struct {
	t       *testing.T
	ctx     context.Context
	network *netlab.Namespace
	config  nocloud.Config
	disk    string
	client  *vmguest.Client
	vm      *vmguest.VM
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), late)
	t.Cleanup(cancel)
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ctx: ctx, network: netlab.New(t).Namespace("host"), disk: filepath.Join(t.TempDir(), "disk")}
	w.config = nocloud.Config{
		InstanceID: "vm-1", Hostname: "web-1", UserData: []byte("#!/bin/sh\necho secret\n"), SSHKeys: []string{"ssh-ed25519 AAAA"},
		Files: []nocloud.File{{Path: "/etc/motd", Mode: 0o600, Content: []byte("hi")}},
		Interfaces: []nocloud.Interface{{
			MAC: hardware, MTU: 1400, Addresses: []netip.Prefix{netip.MustParsePrefix("10.99.0.2/24"), netip.MustParsePrefix("fd99::2/64")},
			Gateways: []netip.Addr{netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("fd99::1")},
		}},
	}
	if err := os.WriteFile(w.disk, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// boot boots the guest and waits for its answer.
func (w *world) boot() report.Boot {
	w.t.Helper()
	w.vm = vmguest.Boot(w.t, vmguest.Options{Config: &w.config, Disks: []string{w.disk}, Network: w.network, MAC: mac, CommandLine: "croft.test=1"})
	w.network.Addr(vmguest.TapName, "10.99.0.1/24")
	w.client = vmguest.NewClient(w.network.Path(), "10.99.0.2")
	boot, err := w.client.Wait(w.ctx)
	w.must(err)
	return boot
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// sees waits for a text on the console.
func (w *world) sees(text string) {
	w.t.Helper()
	for !strings.Contains(w.vm.Console.String(), text) {
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("the console doesn't show %q", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (w *world) ends() {
	w.t.Helper()
	select {
	case <-w.vm.Ended():
	case <-w.ctx.Done():
		w.t.Fatal("the guest doesn't end")
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestGuest holds what other tests rely on, in two boots of one guest.
func TestGuest(t *testing.T) {
	w := newWorld(t)
	boot := w.boot()
	t.Logf("HTTP was served after %.1f s", boot.ReadySeconds)
	w.checkBoot(boot)
	w.checkConfigDisk(boot)
	w.sees("guest ready web-1 10.99.0.2\r\n")
	w.checkConsole()
	bytesOnDisk := []byte("these bytes stay")
	w.checkDisk(bytesOnDisk)
	w.checkFrame()
	w.must(w.client.Post(w.ctx, "/eat?mib=5", nil))

	w.must(w.client.Post(w.ctx, "/ignore-power", nil))
	w.must(w.vm.PressPower())
	w.sees("guest power button ignored")
	w.must(w.client.Post(w.ctx, "/crash", nil))
	w.ends()

	// The first interface has gone with QEMU.
	if boot := w.boot(); boot.Boots != 2 {
		t.Errorf("the guest counts %d boots, want 2", boot.Boots)
	}
	if got, err := w.client.ReadDisk(w.ctx, 1<<20, int64(len(bytesOnDisk))); err != nil || !bytes.Equal(got, bytesOnDisk) {
		t.Errorf("after a crash the disk has %q, %v", got, err)
	}
	w.must(w.vm.PressPower())
	w.ends()
	w.sees("guest power button: off")
	t.Logf("the second boot took %v of a processor", w.vm.Used())
}

func (w *world) checkBoot(boot report.Boot) {
	w.t.Helper()
	if boot.Hostname != "web-1" || boot.ConfigError != "" || boot.Boots != 1 || boot.CPUs != 1 || boot.MemoryMiB < 64 || boot.MemoryMiB > 128 {
		w.t.Errorf("the guest reports %+v", boot)
	}
	if !strings.Contains(boot.CommandLine, "croft.test=1") || boot.UptimeSeconds < boot.ReadySeconds || boot.ReadySeconds <= 0 {
		w.t.Errorf("the guest reports %+v", boot)
	}
	if len(boot.Interfaces) != 1 {
		w.t.Fatalf("the guest has interfaces %+v", boot.Interfaces)
	}
	n := boot.Interfaces[0]
	if n.MAC != mac || n.MTU != 1400 || !slices.Contains(n.Addresses, "10.99.0.2/24") || !slices.Contains(n.Addresses, "fd99::2/64") ||
		!slices.Contains(n.Gateways, "10.99.0.1") || !slices.Contains(n.Gateways, "fd99::1") {
		w.t.Errorf("the guest's interface is %+v", n)
	}
	var data, config bool
	for _, d := range boot.Disks {
		data = data || d.Data && d.Serial == "disk0" && d.Bytes == 8<<20 && !d.ReadOnly && d.Discard > 0 && d.Zero > 0
		config = config || d.Config && d.Serial == "config" && d.ReadOnly
	}
	if len(boot.Disks) != 2 || !data || !config {
		w.t.Errorf("the guest's disks are %+v", boot.Disks)
	}
}

// checkConfigDisk holds that Linux reads what pkg/nocloud wrote, byte for byte, under its long names.
func (w *world) checkConfigDisk(boot report.Boot) {
	w.t.Helper()
	files, err := w.config.Documents()
	w.must(err)
	if len(files) != 4 || len(boot.ConfigFiles) != len(files) {
		w.t.Errorf("the kernel sees files %v", boot.ConfigFiles)
	}
	for name, content := range files {
		if boot.ConfigFiles[name] != sum(content) {
			w.t.Errorf("the kernel sees another %s", name)
		}
	}
	if boot.UserDataSHA256 != sum(w.config.UserData) {
		w.t.Errorf("the hash of the user data is %q", boot.UserDataSHA256)
	}
	if strings.Contains(w.vm.Console.String(), "secret") {
		w.t.Error("the console shows user data")
	}
}

func (w *world) checkConsole() {
	w.t.Helper()
	w.must(w.vm.Type("ping"))
	w.sees("\npong\r\n")
	w.must(w.client.Post(w.ctx, "/console?text=a+line", nil))
	w.sees("\na line\r\n")
}

func (w *world) checkDisk(content []byte) {
	w.t.Helper()
	if size, err := w.client.DiskSize(w.ctx); err != nil || size != 8<<20 {
		w.t.Errorf("the disk has %d bytes, %v", size, err)
	}
	w.must(w.client.WriteDisk(w.ctx, 1<<20, content))
	file, err := os.ReadFile(w.disk)
	w.must(err)
	if !bytes.HasPrefix(file[1<<20:], content) {
		w.t.Error("what the guest wrote isn't on the disk")
	}
	w.must(w.client.WriteDisk(w.ctx, 4<<20, bytes.Repeat([]byte{1}, 1<<20)))
	before := allocated(w.t, w.disk)
	w.must(w.client.Post(w.ctx, "/discard?offset=4194304&size=1048576", nil))
	if after := allocated(w.t, w.disk); after >= before {
		w.t.Errorf("the disk's file takes %d bytes after a discard, before it %d", after, before)
	}
}

func allocated(t *testing.T, name string) int64 {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Blocks * 512
}

// checkFrame holds that the guest sends a frame as it is, also with another's addresses.
func (w *world) checkFrame() {
	w.t.Helper()
	var fd int
	w.network.Do(func() {
		var err error
		const everything = 0x0300 // ETH_P_ALL in network byte order
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, everything)
		w.must(err)
	})
	defer unix.Close(fd)
	w.must(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}))
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0, 9, 9, 9, 0x88, 0xb5}, bytes.Repeat([]byte("x"), 60)...)
	w.must(w.client.Post(w.ctx, "/send?count=3", frame))
	buffer := make([]byte, 2048)
	for found := 0; found < 3; {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err == nil && bytes.Equal(buffer[:n], frame) {
			found++
		}
		if w.ctx.Err() != nil {
			w.t.Fatalf("%d of 3 frames come", found)
		}
	}
}

// TestHungGuest holds that a hung guest answers nothing and ignores its power button.
func TestHungGuest(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.must(w.client.Post(w.ctx, "/hang", nil))
	for {
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
		_, err := w.client.Boot(ctx)
		cancel()
		if err != nil {
			break
		}
	}
	w.must(w.vm.PressPower())
	w.must(w.vm.Type("ping"))
	select {
	case <-w.vm.Ended():
		t.Error("a hung guest ends")
	case <-time.After(2 * time.Second):
	}
	if strings.Contains(w.vm.Console.String(), "pong") {
		t.Error("a hung guest answers on the console")
	}
}

// TestGuestWithoutConfig holds that a guest without disks and interfaces says so and goes on.
func TestGuestWithoutConfig(t *testing.T) {
	w := newWorld(t)
	w.vm = vmguest.Boot(t, vmguest.Options{})
	w.sees("guest config: there is no disk labelled cidata")
	w.sees("guest ready guest without-address")
}
