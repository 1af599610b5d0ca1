// Package vm runs virtual machines: one QEMU each, which outlives the agent. On the bus it is node.VMs.
//
// A VM's process is started by package launch: as a user of its own, in a control group of its own, with QEMU's filter of
// system calls, and with the VM's kernel, disks and tap device as open files. Below {run}/vm the module keeps what it needs
// to find it again (package machine). Nothing of a VM is anywhere else: disks belong to the storage module, tap devices to
// the network module, and after a reboot of the machine the engine runs each VM again.
//
// A VM that ends by itself is started again after a growing pause. Only Delete ends one for good: the guest's power button,
// and after 30 seconds a kill.
package vm
