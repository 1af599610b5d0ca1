// Package discard passes the discards of a VM's guest on to its disks on btrfs, without breaking the promise of their sizes.
//
// btrfs keeps all of an extent on the disk while one block of it is in use. A hole punched into a part of one gives nothing back,
// and what is written into the hole takes new space beside the old. So QEMU punches no holes: a filter of system calls, which
// the process that becomes QEMU installs (Discarder), hands each of its fallocate calls to the discarder, a process beside it (Serve), which
// punches the extents that lie in the guest's discard whole, and leaves the rest as it is. A discard is a hint, so that is a
// right answer.
//
// The discarder has no rights but two capabilities, no files but the VM's writable disks, and a handful of system calls. It ends
// when the last process that has the filter has ended and was waited for. When it is gone, fallocate fails with ENOSYS, which QEMU takes for a disk without
// discards.
package discard
