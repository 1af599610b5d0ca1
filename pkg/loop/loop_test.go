package loop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

func image(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "with a space.img")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Truncate(path, 1<<20))
	return path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantGone waits until no device has path.
func wantGone(t *testing.T, path string) {
	t.Helper()
	late := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := Find(path); errors.Is(err, node.NotExist) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s is still attached", path)
		}
	}
}

func TestAttach(t *testing.T) {
	path := image(t)
	if _, err := Find(path); !errors.Is(err, node.NotExist) {
		t.Errorf("before, it is found: %v", err)
	}
	d, err := Attach(t.Context(), path)
	check(t, err)
	found, err := Find(path)
	check(t, err)
	if found != d.Path() || Backing(found) != path {
		t.Errorf("found is %s of %q, attached %s", found, Backing(found), d.Path())
	}
	check(t, os.WriteFile(d.Path(), []byte("through the device"), 0))
	again, err := Attach(t.Context(), path)
	check(t, err)
	if again.Path() != d.Path() {
		t.Errorf("attached twice, to %s and %s", d.Path(), again.Path())
	}
	check(t, d.Close())
	if _, err := Find(path); err != nil {
		t.Errorf("it went while it was open: %v", err)
	}
	check(t, again.Close())
	wantGone(t, path)
	data, err := os.ReadFile(path)
	check(t, err)
	if !strings.HasPrefix(string(data), "through the device") {
		t.Errorf("the image holds %q", data[:20])
	}
}

// TestDirect is of a device that is made, and of one that an earlier croft has attached.
func TestDirect(t *testing.T) {
	path := image(t)
	able, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatalf("the tests' folder must be on a file system with direct access, TMPDIR may name one: %v", err)
	}
	check(t, able.Close())
	d, err := Attach(t.Context(), path)
	check(t, err)
	if !Direct(d.Path()) {
		t.Error("what was attached isn't direct")
	}
	check(t, d.Close())
	wantGone(t, path)

	d = attachEarlier(t, path)
	again, err := Attach(t.Context(), path)
	check(t, err)
	if again.Path() != d.Path() || !Direct(d.Path()) {
		t.Errorf("attached again to %s, it was %s, and is direct: %t", again.Path(), d.Path(), Direct(d.Path()))
	}
	check(t, d.Close())
	check(t, again.Close())
	wantGone(t, path)
}

// attachEarlier attaches an image as earlier versions did: with blocks of 512 bytes,
// by way of the page cache.
func attachEarlier(t *testing.T, path string) *Device {
	t.Helper()
	backing, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer backing.Close()
	for {
		device, err := free()
		check(t, err)
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		check(t, err)
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: 512}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		err = unix.IoctlLoopConfigure(int(f.Fd()), &config)
		if err == nil && Direct(device) {
			t.Fatal("it can't be attached as an earlier croft did")
		}
		if err == nil {
			return &Device{file: f}
		}
		check(t, f.Close())
		if !errors.Is(err, unix.EBUSY) { // somebody took it first
			t.Fatal(err)
		}
	}
}

// TestMany needs more devices than the kernel makes at boot.
func TestMany(t *testing.T) {
	var group sync.WaitGroup
	devices := make([]*Device, 12)
	for i := range devices {
		group.Go(func() {
			d, err := Attach(t.Context(), image(t))
			if err != nil {
				t.Error(err)
				return
			}
			devices[i] = d
		})
	}
	group.Wait()
	seen := map[string]bool{}
	for _, d := range devices {
		if d == nil {
			continue
		}
		if seen[d.Path()] {
			t.Errorf("%s was given to two", d.Path())
		}
		seen[d.Path()] = true
		check(t, d.Close())
	}
}

func TestAttachNothing(t *testing.T) {
	if _, err := Attach(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, node.NotExist) {
		t.Errorf("an image that isn't there gives %v", err)
	}
}

func TestDetach(t *testing.T) {
	path := image(t)
	d, err := Attach(t.Context(), path)
	check(t, err)
	check(t, Detach(d.Path()))
	check(t, d.Close())
	wantGone(t, path)
	check(t, Detach(d.Path()))
}

func TestRemovedImage(t *testing.T) {
	path := image(t)
	d, err := Attach(t.Context(), path)
	check(t, err)
	defer d.Close()
	check(t, os.Remove(path))
	if got := Backing(d.Path()); got != path+" (deleted)" {
		t.Errorf("the device's file is %q", got)
	}
	if _, err := Find(path); !errors.Is(err, node.NotExist) {
		t.Errorf("a removed image is found: %v", err)
	}
}
