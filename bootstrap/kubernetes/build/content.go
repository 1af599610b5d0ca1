package main

import "github.com/croft-edge/croft/bootstrap/internal/imagebuild"

// packageNames are the Debian packages of which the image has files, beside those that they need and the kernel's.
func packageNames() []string {
	return []string{"busybox-static", "ca-certificates", "dropbear-bin", "e2fsprogs", "nftables"}
}

// packageFiles are the files that are taken of packages, with all that they need.
func packageFiles() []string {
	return []string{
		imagebuild.Busybox,
		"/usr/sbin/dropbear", "/usr/bin/dropbearkey",
		"/sbin/mke2fs", "/sbin/resize2fs", "/sbin/e2fsck", "/etc/mke2fs.conf",
		"/usr/sbin/nft",
	}
}
