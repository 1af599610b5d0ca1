package kmod

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
)

// fakeKernel notes what it gets.
type fakeKernel struct {
	mu     sync.Mutex
	got    []string
	refuse string
	// slow is how long it takes for a module.
	slow time.Duration
}

func (k *fakeKernel) insert(file, parameters string) error {
	time.Sleep(k.slow)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != "" && strings.Contains(file, k.refuse) {
		return errors.New("no such device")
	}
	k.got = append(k.got, strings.TrimSpace(Name(file)+" "+parameters))
	return nil
}

func testModules(t *testing.T, commandLine string) (*Modules, *fakeKernel) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep": testDep, "modules.alias": testAlias, "modules.softdep": testSoftDep, "modules.builtin": testBuiltIn,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKernel{}
	m.insert, m.commandLine = k.insert, func() (string, error) { return commandLine, nil }
	return m, k
}

// devices makes a sysfs with a device for each modalias.
func devices(t *testing.T, aliases ...string) string {
	t.Helper()
	sys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sys, "bus"), 0o750); err != nil {
		t.Fatal(err)
	}
	for i, text := range aliases {
		dir := filepath.Join(sys, "devices", "pci0000:00", string(rune('a'+i)))
		link := filepath.Join(sys, "bus", "pci", "devices", string(rune('a'+i)))
		if i%2 == 1 {
			link = filepath.Join(sys, "class", "input", string(rune('a'+i)))
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "modalias"), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

func TestLoad(t *testing.T) {
	m, k := testModules(t, "virtio_net.napi=1")
	if err := m.Load("virtio-net"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"virtio", "base", "failover", "virtio_net napi=1"}; !slices.Equal(k.got, want) {
		t.Errorf("loaded are %v, must be %v", k.got, want)
	}
	if err := m.Load("virtio_net"); err != nil || len(k.got) != 4 {
		t.Errorf("once more: %v, %v", k.got, err)
	}
	if err := m.Load("ext4"); err != nil {
		t.Errorf("a part of the kernel: %v", err)
	}
	if err := m.Load("gone"); err == nil {
		t.Error("a module that isn't there is loaded")
	}
	if err := m.LoadAlias("nothing:like"); err != nil {
		t.Errorf("an alias of nothing: %v", err)
	}
}

func TestLoadGoesOnWithoutSoftNeeds(t *testing.T) {
	m, k := testModules(t, "")
	k.refuse = "crc32c"
	if err := m.Load("btrfs"); err != nil || !slices.Equal(k.got, []string{"xor", "btrfs", "late"}) {
		t.Errorf("loaded are %v, %v", k.got, err)
	}
	k.refuse = "failover"
	if err := m.Load("virtio_net"); err == nil || !strings.Contains(err.Error(), "cannot load module failover") || slices.Contains(k.got, "virtio_net") {
		t.Errorf("without a module that must be there: %v, %v", k.got, err)
	}
	k.refuse = ""
	if err := m.Load("virtio_net"); err != nil || !slices.Contains(k.got, "virtio_net") {
		t.Errorf("a name is tried again: %v, %v", k.got, err)
	}
}

func TestLoadForDevices(t *testing.T) {
	m, k := testModules(t, "")
	k.refuse = "battery"
	sys := devices(t, "virtio:d00000001v00001AF4", "acpi:PNP0C0A:", "pci:unknown", "virtio:d00000001v00001AF4")
	loaded, err := m.LoadForDevices(sys, nil)
	if loaded != 4 || err == nil || !strings.Contains(err.Error(), "battery") {
		t.Errorf("loaded are %d, %v: %v", loaded, k.got, err)
	}
	if loaded, err := m.LoadForDevices(sys, nil); loaded != 0 || err != nil {
		t.Errorf("once more: %d, %v", loaded, err)
	}
	if _, err := m.LoadForDevices(filepath.Join(sys, "gone"), nil); err == nil {
		t.Error("a sysfs that isn't there has devices")
	}
}

func TestDevicesDontLoadRefusedModules(t *testing.T) {
	m, k := testModules(t, "modprobe.blacklist=virtio-net")
	if loaded, err := m.LoadForDevices(devices(t, "virtio:d00000001v00001AF4"), nil); loaded != 0 || err != nil || len(k.got) > 0 {
		t.Errorf("loaded are %d, %v: %v", loaded, k.got, err)
	}
	if err := m.Load("virtio_net"); err != nil || len(k.got) != 4 {
		t.Errorf("by its name: %v, %v", k.got, err)
	}
}

// TestManyLoadAtOnce has goroutines load modules that share needs: each is given once, after all that it needs.
func TestManyLoadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := testModules(t, "")
		k.slow = time.Second
		names := []string{"virtio_net", "btrfs", "failover", "xor", "virtio:d00000001v00001AF4", "crc32c", "base", "late"}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if err := m.Load(names[i%len(names)]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i, name := range k.got {
			if slices.Contains(k.got[:i], name) {
				t.Errorf("%s is given twice: %v", name, k.got)
			}
			for _, need := range m.files[name].needs {
				if !slices.Contains(k.got[:i], need) {
					t.Errorf("%s is given before %s, which it needs: %v", name, need, k.got)
				}
			}
		}
		if want := 9; len(k.got) != want {
			t.Errorf("%d modules are given, want %d: %v", len(k.got), want, k.got)
		}
	})
}

// TestOneDeviceAfterTheOther has a device appear while another's modules are loaded: its own come after all of them.
func TestOneDeviceAfterTheOther(t *testing.T) {
	m, k := testModules(t, "")
	begun, once := make(chan struct{}), sync.Once{}
	m.insert = func(file, parameters string) error {
		once.Do(func() { close(begun) })
		time.Sleep(10 * time.Millisecond) // longer than the other device takes to be loaded, if it doesn't wait
		return k.insert(file, parameters)
	}
	sys := devices(t, "virtio:d00000001v00001AF4")
	var all sync.WaitGroup
	all.Go(func() {
		if loaded, err := m.LoadForDevices(sys, nil); loaded != 4 || err != nil {
			t.Errorf("%d modules are loaded for the device, %v", loaded, err)
		}
	})
	<-begun
	if err := m.LoadAlias("acpi:PNP0C0A:"); err != nil {
		t.Error(err)
	}
	all.Wait()
	if got := k.got; len(got) != 5 || got[3] != "virtio_net" || got[4] != "battery" {
		t.Errorf("given are %v", got)
	}
}

// TestARefusedModuleIsNoSoftNeedAgain: a processor that lacks something is asked for it once, not for each module that would be faster with it.
func TestARefusedModuleIsNoSoftNeedAgain(t *testing.T) {
	m, k := testModules(t, "")
	tries := 0
	m.insert = func(file, parameters string) error {
		if strings.Contains(file, "crc32c-intel") {
			tries++
			return errors.New("no such device")
		}
		return k.insert(file, parameters)
	}
	for _, name := range []string{"btrfs", "btrfs", "fs-btrfs"} {
		if err := m.Load(name); err != nil {
			t.Fatal(err)
		}
	}
	if tries != 1 {
		t.Errorf("the module is tried %d times, want once", tries)
	}
}

func TestOpenNeedsModulesDep(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "modules.dep") {
		t.Errorf("an empty folder: %v", err)
	}
	m, _ := testModules(t, "")
	if err := os.Remove(filepath.Join(m.folder, "modules.alias")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(m.folder); err != nil {
		t.Errorf("without aliases: %v", err)
	}
}
