package main

import "github.com/croft-edge/croft/bootstrap/internal/imagebuild"

// packageNames are the Debian packages of which the image has files, beside those that they need and the kernel's.
func packageNames() []string {
	return []string{
		"apparmor", "btrfs-progs", "busybox-static", "ca-certificates", "chrony", "containerd", "nftables", "qemu-system-x86", "redis-server",
		"redis-tools", "runc", "util-linux",
	}
}

// programFiles are the programs that are taken of packages, with all that they need.
func programFiles() []string {
	return []string{
		imagebuild.Busybox,
		// Containers, and what enters their mounts. ctr has 7 MB, and nobody there to call it: croft speaks to containerd itself.
		"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/runc", "/usr/bin/nsenter",
		"/sbin/apparmor_parser", "/etc/apparmor/parser.conf", "/usr/share/apparmor-features/features",
		// Disks and pools.
		"/sbin/blkid", "/sbin/wipefs", "/sbin/mkfs.btrfs", "/bin/btrfs",
		// The bus, and the clock.
		"/usr/bin/redis-server", "/usr/bin/redis-cli", "/usr/sbin/chronyd", "/usr/bin/chronyc",
		// For people at a console: croft speaks to the kernel itself.
		"/usr/sbin/nft",
	}
}

// machineFiles are what virtual machines need: those of modules/vm/qemu have a kernel and no option ROMs, on the boards q35 and microvm,
// with KVM or without. Without KVM QEMU loads its translator as a module, by name.
func machineFiles() []string {
	return []string{
		"/usr/bin/qemu-system-x86_64", "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so",
		"/usr/share/seabios/bios-256k.bin", "/usr/share/qemu/bios-microvm.bin",
		"/usr/share/qemu/kvmvapic.bin", "/usr/share/qemu/linuxboot.bin", "/usr/share/qemu/linuxboot_dma.bin", "/usr/share/qemu/pvh.bin",
	}
}

// wholeFolders are folders of packages that are taken with all that is in them: what the AppArmor profile of containers includes.
func wholeFolders() []string {
	return []string{"/etc/apparmor.d/abi", "/etc/apparmor.d/abstractions", "/etc/apparmor.d/tunables"}
}

// packageFiles are all files that are taken of packages, beside what these need.
func packageFiles(packages []imagebuild.Package) ([]string, error) {
	out := append(programFiles(), machineFiles()...)
	for _, folder := range wholeFolders() {
		files, err := imagebuild.Below(packages, folder)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

// shownPackages are the packages that the image's manifest names with their versions, by the names that people know.
func shownPackages() map[string]string {
	return map[string]string{
		"apparmor": "apparmor", "btrfs-progs": "btrfs-progs", "busybox": "busybox-static", "chrony": "chrony", "containerd": "containerd",
		"nftables": "nftables", "qemu": "qemu-system-x86", "redis": "redis-server", "runc": "runc",
	}
}
