package storage

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const gib = 1 << 30

// sparse makes a sparse file of half a GiB.
func sparse(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-d-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "disk")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, gib/2); err != nil {
		t.Fatal(err)
	}
	return path
}

// disk is an empty block device, by a path other than the kernel's.
func disk(t *testing.T) string {
	t.Helper()
	d, err := loop.Attach(t.Context(), sparse(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	name := filepath.Join(t.TempDir(), "by-id")
	if err := os.Symlink(d.Path(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// load makes the configuration of a node in a folder of the test's own; its pools are removed when the
// test ends.
func load(t *testing.T, flags map[string]string) config.Config {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-d-")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"state-dir": filepath.Join(dir, "s"), "run-dir": filepath.Join(dir, "r"), "pool-size": "512MiB",
	}
	for name, value := range flags {
		all[name] = value
	}
	loaded, err := config.Load(config.From{Modules: settings(), Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Destroy(context.Background(), loaded.Config, "", true); err != nil {
			t.Errorf("%s stays: %v", dir, err)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return loaded.Config
}

// made makes the pools of c, as a node does that starts and stops, and returns their status.
func made(t *testing.T, c config.Config) node.StorageStatus {
	t.Helper()
	m, err := storage.Open(t.Context(), moduleConfig(c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	status, err := m.Storage().Status()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return status
}

func TestPoolDestroyByEachDiskName(t *testing.T) {
	c := load(t, map[string]string{"disk": "SSD:" + disk(t) + ",HDD:" + disk(t)})
	status := made(t, c)
	if len(status.Pools) != 2 {
		t.Fatalf("the pools are %+v", status)
	}
	gone, stays := status.Pools[0], status.Pools[1]
	if err := Destroy(t.Context(), c, gone.Name, false); err != nil {
		t.Fatal(err)
	}
	marks, err := filepath.Glob(filepath.Join(c.StateDir, "storage", "pools", "*.json"))
	if err != nil || len(marks) != 1 || filepath.Base(marks[0]) != stays.Name+".json" {
		t.Errorf("the marks left are %v, want only that of %s (%v)", marks, stays.Name, err)
	}
}

func TestPoolsOfARunningNodeStay(t *testing.T) {
	c := load(t, nil)
	m, err := storage.Open(t.Context(), moduleConfig(c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	for what, err := range map[string]error{
		"destroying":      Destroy(t.Context(), c, "ssd0", false),
		"destroying all":  Destroy(t.Context(), c, "", false),
		"forcing it":      Destroy(t.Context(), c, "ssd0", true),
		"forcing it, all": Destroy(t.Context(), c, "", true),
		"detaching":       Detach(t.Context(), c),
	} {
		if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "stop the node") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if status, err := m.Storage().Status(); err != nil || len(status.Pools) != 1 {
		t.Errorf("the node has %+v, %v", status, err)
	}
}

func TestAPoolThatCannotBeLookedAtIsNotDestroyed(t *testing.T) {
	for _, name := range []string{"ssd0", ""} {
		c := load(t, nil)
		made(t, c)
		if err := Detach(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		image := filepath.Join(c.StateDir, "storage", "pools", "ssd0.img")
		damage(t, image)
		err := Destroy(t.Context(), c, name, false)
		if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "pool ssd0") || !strings.Contains(err.Error(), "--force") {
			t.Errorf("destroying %q of a damaged pool: %v", name, err)
		}
		if _, err := os.Lstat(image); err != nil {
			t.Errorf("the image of a refused destroy: %v", err)
		}
		if err := Destroy(t.Context(), c, name, true); err != nil {
			t.Errorf("forced: %v", err)
		}
		if _, err := os.Lstat(image); !os.IsNotExist(err) {
			t.Errorf("the image is still there: %v", err)
		}
	}
}

func TestLookingAtPoolsErasesNoOtherDisk(t *testing.T) {
	other := disk(t)
	const precious = "somebody's table"
	before := []byte(strings.Repeat(precious, 1<<16/len(precious)))
	if err := os.WriteFile(other, before, 0o600); err != nil {
		t.Fatal(err)
	}
	first := disk(t)
	c := load(t, map[string]string{"disk": "SSD:" + first})
	pool := made(t, c).Pools[0]
	c.Disks = append(c.Disks, config.Disk{Type: "SSD", Path: other})
	c.WipeDisks = []string{other}
	if err := Destroy(t.Context(), c, pool.Name, false); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	after := make([]byte, len(before))
	if _, err := f.ReadAt(after, 0); err != nil || string(after) != string(before) {
		t.Errorf("the other disk was changed (%v)", err)
	}
}

// damage overwrites a pool's super block.
func damage(t *testing.T, image string) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 4096), 64<<10); err != nil {
		t.Fatal(err)
	}
}

func TestModuleConfig(t *testing.T) {
	loop := moduleConfig(config.Config{StateDir: "/s", RunDir: "/r", PoolSize: gib, PoolType: workload.HDD}, zerolog.Nop())
	if err := loop.Validate(); err != nil || len(loop.Pools) != 1 || loop.Pools[0].Name != "hdd0" || loop.Mounts != "/r/pools" {
		t.Errorf("%+v, %v", loop, err)
	}
	whole := moduleConfig(config.Config{
		StateDir: "/s", RunDir: "/r", PoolSize: gib, PoolType: workload.SSD,
		Disks: []config.Disk{{Type: workload.SSD, Path: "/dev/a"}, {Path: "/dev/b"}}, WipeDisks: []string{"/dev/b"},
	}, zerolog.Nop())
	if err := whole.Validate(); err != nil || len(whole.Pools) != 2 || whole.Pools[1].Disk != "/dev/b" || len(whole.WipeDisks) != 1 {
		t.Errorf("%+v, %v", whole, err)
	}
}
