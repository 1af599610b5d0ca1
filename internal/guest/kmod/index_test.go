package kmod

import (
	"slices"
	"strings"
	"testing"
)

const (
	testDep = "kernel/net/virtio-net.ko: kernel/net/failover.ko kernel/virtio/virtio.ko\n" +
		"kernel/net/failover.ko: kernel/core/base.ko\nkernel/core/base.ko:\nkernel/virtio/virtio.ko:\n" +
		"kernel/fs/btrfs.ko: kernel/lib/xor.ko\nkernel/lib/xor.ko:\nkernel/crypto/crc32c-intel.ko:\nkernel/crypto/crc32c-generic.ko:\n" +
		"kernel/lib/late.ko:\nkernel/bad.ko: kernel/gone.ko\nkernel/acpi/battery.ko:\n"
	testAlias = "# Aliases extracted from modules themselves.\n" +
		"alias virtio:d00000001v* virtio_net\nalias fs-btrfs btrfs\nalias crc32c crc32c_generic\nalias crc32c crc32c_intel\n" +
		"alias acpi*:PNP0C0A:* battery\nalias virtio:d00000002v* notpacked\n"
	testSoftDep = "# comment\nsoftdep btrfs pre: crc32c gone post: late\n"
	testBuiltIn = "kernel/fs/ext4/ext4.ko\n"
)

func testIndex(t *testing.T) *Index {
	t.Helper()
	x, err := Read(Texts{Dep: testDep, Alias: testAlias, SoftDep: testSoftDep, BuiltIn: testBuiltIn})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestSteps(t *testing.T) {
	x := testIndex(t)
	for name, want := range map[string]string{
		"virtio-net":                "virtio base failover virtio_net",
		"virtio_net":                "virtio base failover virtio_net",
		"btrfs":                     "crc32c_generic? crc32c_intel? xor btrfs late?",
		"fs-btrfs":                  "crc32c_generic? crc32c_intel? xor btrfs late?",
		"virtio:d00000001v00001AF4": "virtio base failover virtio_net",
		"crc32c":                    "crc32c_generic crc32c_intel",
		"ext4":                      "",
	} {
		steps, err := x.Steps(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, s := range steps {
			if s.Soft {
				s.Name += "?"
			}
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the steps of %s are %v, must be %q", name, got, want)
		}
	}
	for _, name := range []string{"gone", "bad", "virtio:d00000009v00001AF4"} {
		if steps, err := x.Steps(name); err == nil || !strings.HasPrefix(err.Error(), "cannot find module") {
			t.Errorf("the steps of %s are %v, %v", name, steps, err)
		}
	}
}

func TestNamesOfAliases(t *testing.T) {
	x := testIndex(t)
	for text, want := range map[string][]string{
		"virtio:d00000001v00001AF4": {"virtio_net"},
		"virtio:d00000002v00001AF4": {}, // its module has no file
		"acpi:PNP0C0A:":             {"battery"},
		"crc32c":                    {"crc32c_generic", "crc32c_intel"},
		"":                          {},
	} {
		if got := x.Names(text); !slices.Equal(got, want) {
			t.Errorf("the modules of %q are %v, must be %v", text, got, want)
		}
	}
}

func TestModulesThatNeedEachOtherEnd(t *testing.T) {
	x, err := Read(Texts{Dep: "a.ko: b.ko\nb.ko: a.ko\n", SoftDep: "softdep a pre: a b\n"})
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := x.Steps("a"); err != nil || len(steps) != 2 {
		t.Errorf("the steps are %v, %v", steps, err)
	}
}

func TestUnreadableLists(t *testing.T) {
	for _, text := range []string{"", "kernel/a.ko\n"} {
		if _, err := Read(Texts{Dep: text}); err == nil || !strings.HasPrefix(err.Error(), "cannot read modules.dep") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParameters(t *testing.T) {
	const line = `quiet nvme-core.multipath=N nvme_core.io_timeout=30 nvme_core.flag "dm_mod.create=a b" loop.max_loop="1 2" -- nvme_core.late=1`
	for module, want := range map[string]string{
		"nvme_core": "multipath=N io_timeout=30 flag", "dm_mod": `create="a b"`, "loop": `max_loop="1 2"`, "nvme": "",
	} {
		if got := parameters(line, module); got != want {
			t.Errorf("the parameters of %s are %q, must be %q", module, got, want)
		}
	}
}

func TestRefusedModules(t *testing.T) {
	got := refused("modprobe.blacklist=a-b,c module_blacklist=d -- modprobe.blacklist=e")
	for name, want := range map[string]bool{"a_b": true, "c": true, "d": true, "e": false} {
		if got[name] != want {
			t.Errorf("%s is refused: %v, must be %v", name, got[name], want)
		}
	}
}
