// Package vmimage reads the image of virtual machines: a folder with a kernel, an initrd, perhaps a root file system,
// and the manifest that describes them:
//
//	image.json  {"format": 1, "name": "kubernetes", "version": "1.36.3",
//	             "kernel": "vmlinuz", "initrd": "initrd", "root": "root.squashfs", "arguments": "quiet",
//	             "sha256": {"vmlinuz": "…", "initrd": "…", "root.squashfs": "…"}}
//
// root may be absent; it is a read-only disk that all machines share. arguments is the kernel command line.
// Every file is checked against its sum once, and again when it has changed.
//
// It owns nothing: who installs an image puts its files there, and the manifest last.
package vmimage
