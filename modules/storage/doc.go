// Package storage owns the node's disks: btrfs pools on loop files or on whole
// disks, file systems with an enforced size on them, and raw disks for VMs.
//
// On disk it owns, below Config.State:
//
//	storage.lock            held while a module runs
//	pools/<pool>.img        a loop pool's image; <pool>.img.new while it is made
//	pools/<pool>.json       the pool's mark: it was made here, with that UUID
//	pools/<pool>.index/     names of what lies on the pool, for when it can't be read
//
// and inside each pool, which is mounted at Config.Mounts/<pool>:
//
//	volumes/<name>          one subvolume a file system
//	vdisks/<name>           one preallocated file a virtual disk
//
// What it makes carries the extended attribute trusted.croft.filesystem or
// trusted.croft.vdisk; what has none is never listed and never touched. The
// disk is the only memory: every answer is read from it. A file system's label
// says whose it is, too: who asks for its name with another hash doesn't get it.
//
// On the bus it serves storage.storage@0.1.0 and storage.vdisk@0.1.0. It may
// not know of reservations: a name is a name, a hash a hash.
package storage
