// Package qemu knows QEMU: its command line for a virtual machine, its version, and which
// accelerator of it works on this machine. It starts nothing but short probes.
//
// Files are handed to QEMU as open descriptors: it runs as a user that can open none of
// the node's files.
package qemu
