// Package storage owns the node's disks: btrfs pools on loop files or on whole
// disks, file systems with an enforced size on them, and raw disks for VMs.
//
// On disk it owns, below Config.State:
//
//	storage.lock            held while a module runs
//	pools/<pool>.img        a loop pool's image; <pool>.img.new while it is made
//	pools/<pool>.json       the pool's mark: it was made here, with that UUID
//	pools/<pool>.index/     names of the things on the pool, for when it can't be read
//
// and inside each pool, which is mounted at Config.Mounts/<pool>, the file systems
// and virtual disks of package volume. Package blockdev formats pools, loop attaches
// their files, btrfs speaks to the kernel. The disk is the only memory: every answer
// is read from it. A label also has the hash of its owner: nobody gets
// it by its name and another hash.
//
// On the bus it serves storage.storage@0.1.0 and storage.vdisk@0.1.0. It may
// not know of reservations: a name is a name, a hash a hash.
package storage
