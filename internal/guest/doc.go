// Package guest has what programs that run as process 1 of a virtual machine of croft need: kernel modules, disks, the
// NoCloud config disk, the network that this describes, and the power button. The Kubernetes image's init and the small
// guest of tests use it.
//
// It acts on the whole machine, and keeps nothing.
package guest
