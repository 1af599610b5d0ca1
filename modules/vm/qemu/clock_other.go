//go:build !amd64

package qemu

// timeStampCounter is 0: other processors have none, and their VMs aren't emulated x86-64 machines.
func timeStampCounter() uint64 { return 0 }
