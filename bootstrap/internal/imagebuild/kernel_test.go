package imagebuild

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const modulesDep = `kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio-pci-legacy-dev.ko kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio-pci-legacy-dev.ko:
kernel/drivers/virtio/virtio_mmio.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/fs/squashfs/squashfs.ko: kernel/lib/zstd/zstd_decompress.ko kernel/lib/zstd/zstd_common.ko
kernel/lib/zstd/zstd_decompress.ko: kernel/lib/zstd/zstd_common.ko
kernel/lib/zstd/zstd_common.ko:
kernel/drivers/net/vxlan.ko:
`

// kernelPackage is an unpacked package of a kernel whose modules lie below a folder.
func kernelPackage(t *testing.T, below string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "boot/vmlinuz-6.1"), "kernel")
	for line := range strings.Lines(modulesDep) {
		path, _, _ := strings.Cut(line, ":")
		write(t, filepath.Join(dir, below, "lib/modules/6.1", path), "module "+path)
	}
	write(t, filepath.Join(dir, below, "lib/modules/6.1/modules.builtin"), "kernel/fs/ext4/ext4.ko\nkernel/fs/overlayfs/overlay.ko\n")
	return dir
}

// depmod writes what the real one would.
func depmod(t *testing.T, runs *[]string) Runner {
	return func(_ context.Context, _, name string, args ...string) ([]byte, error) {
		*runs = append(*runs, name)
		if name == "depmod" {
			if args[0] != "-b" || args[2] != "6.1" {
				t.Errorf("depmod %v runs", args)
			}
			write(t, filepath.Join(args[1], "lib/modules/6.1/modules.dep"), modulesDep)
		}
		return nil, nil
	}
}

// All modules are in the root folder; the initrd has what leads to the root file system, each after what it needs.
func TestKernel(t *testing.T) {
	for _, below := range []string{"", "usr"} {
		k, err := OpenKernel(kernelPackage(t, below))
		if err != nil {
			t.Fatal(err)
		}
		r, runs := newRoot(t), []string{}
		if err := k.Install(t.Context(), r, depmod(t, &runs)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(runs, []string{"depmod"}) {
			t.Errorf("these run: %v", runs)
		}
		if got := read(t, r.At("/lib/modules/6.1/kernel/drivers/net/vxlan.ko")); got != "module kernel/drivers/net/vxlan.ko" {
			t.Errorf("the module is %q", got)
		}
		modules, err := k.WithNeeds(r, []string{"virtio_pci", "virtio_mmio", "virtio_blk", "squashfs", "overlay"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range modules {
			names = append(names, m.Name)
			if !strings.HasPrefix(string(m.Content), "module kernel/") {
				t.Errorf("%s has %q", m.Name, m.Content)
			}
		}
		want := []string{"zstd_common", "zstd_decompress", "squashfs", "virtio", "virtio_ring", "virtio_blk", "virtio_mmio", "virtio_pci_legacy_dev", "virtio_pci"}
		if !slices.Equal(names, want) {
			t.Errorf("the order is %v, want %v", names, want)
		}
	}
}

// Packed modules are unpacked.
func TestPackedModules(t *testing.T) {
	dir := kernelPackage(t, "")
	write(t, filepath.Join(dir, "lib/modules/6.1/kernel/drivers/net/x.ko.xz"), "packed")
	k, err := OpenKernel(dir)
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	if err := k.Install(t.Context(), newRoot(t), depmod(t, &runs)); err != nil || !slices.Equal(runs, []string{"find", "depmod"}) {
		t.Errorf("these run: %v, %v", runs, err)
	}
}

func TestBadKernels(t *testing.T) {
	if _, err := OpenKernel(t.TempDir()); err == nil {
		t.Error("a package without a kernel is taken")
	}
	dir := kernelPackage(t, "")
	if err := os.RemoveAll(filepath.Join(dir, "lib")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKernel(dir); err == nil {
		t.Error("a package without modules is taken")
	}
	files, err := parseDependencies("a/one.ko: a/two.ko\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "three"} {
		if _, err := chosen(files, nil, []string{name}); err == nil {
			t.Errorf("module %s is found", name)
		}
	}
	for _, text := range []string{"", "a/one.ko\n"} {
		if _, err := parseDependencies(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Of all modules the image has the wanted ones and those that they need; folders of others are gone.
func TestSomeModules(t *testing.T) {
	k, err := OpenKernel(kernelPackage(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	r, runs := newRoot(t), []string{}
	write(t, r.At("/lib/modules/6.1/modules.dep.bin"), "")
	wanted := func(file string) bool { return file == "kernel/fs/squashfs/squashfs.ko" }
	defer unix.Umask(unix.Umask(0o077))
	if err := k.InstallSome(t.Context(), r, wanted, depmod(t, &runs)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(r.At("/lib/modules/6.1/modules.dep")); err != nil || info.Mode() != 0o644 {
		t.Errorf("under a narrow umask modules.dep has mode %v, %v", info.Mode(), err)
	}
	if !slices.Equal(runs, []string{"depmod", "depmod"}) {
		t.Errorf("these run: %v", runs)
	}
	for at, want := range map[string]bool{
		"fs/squashfs/squashfs.ko": true, "lib/zstd/zstd_common.ko": true, "lib/zstd/zstd_decompress.ko": true, "drivers": false, "../modules.dep.bin": false,
	} {
		if got := r.Has("/lib/modules/6.1/kernel/" + at); got != want {
			t.Errorf("%s is there: %v, want %v", at, got, want)
		}
	}
	if err := k.InstallSome(t.Context(), newRoot(t), func(string) bool { return false }, depmod(t, &runs)); err == nil {
		t.Error("a kernel without modules is installed")
	}
}
