package main

import (
	"strings"
	"testing"
)

func TestWantedModules(t *testing.T) {
	for file, want := range map[string]bool{
		"kernel/drivers/net/ethernet/intel/igb/igb.ko": true, "kernel/drivers/net/wireguard/wireguard.ko": true, "kernel/drivers/net/tun.ko": true,
		"kernel/fs/btrfs/btrfs.ko": true, "kernel/fs/overlayfs/overlay.ko": true, "kernel/drivers/watchdog/iTCO_wdt.ko": true,
		"kernel/arch/x86/kvm/kvm-intel.ko": true, "kernel/drivers/vhost/vhost_net.ko": true, "kernel/net/sched/sch_htb.ko": true,
		"kernel/drivers/hid/usbhid/usbhid.ko": true, "kernel/drivers/gpu/drm/ast/ast.ko": true, "kernel/drivers/gpu/drm/tiny/simpledrm.ko": true,
		"kernel/drivers/gpu/drm/tiny/simpledrm.ko.xz": true, "kernel/drivers/nvme/host/nvme.ko": true, "kernel/lib/libcrc32c.ko": true,
		"kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko": false, "kernel/sound/core/snd.ko": false, "kernel/drivers/net/wireless/ath/ath.ko": false,
		"kernel/fs/xfs/xfs.ko": false, "kernel/net/bluetooth/bluetooth.ko": false, "kernel/drivers/block/rbd.ko": false, "kernel/lib/test_bpf.ko": false,
	} {
		if got := wantedModule(file); got != want {
			t.Errorf("%s is taken: %v, must be %v", file, got, want)
		}
	}
}

// No list has a name twice, and an exception is one.
func TestListsOfModules(t *testing.T) {
	for name, list := range map[string][]string{"leftOut": leftOut(), "taken": taken(), "bootModules": bootModules()} {
		seen := map[string]bool{}
		for _, word := range list {
			if seen[word] || strings.HasPrefix(word, "kernel/") || word == "" {
				t.Errorf("%s has %q", name, word)
			}
			seen[word] = true
		}
	}
	for _, file := range taken() {
		if !strings.HasPrefix(file, "drivers/") {
			t.Errorf("%s is no path of a driver", file)
		}
		left := false
		for _, prefix := range leftOut() {
			left = left || strings.HasPrefix(file, prefix)
		}
		if !left {
			t.Errorf("%s is taken anyway", file)
		}
	}
}
