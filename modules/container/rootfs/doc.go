// Package rootfs makes a container's environment: the range of
// user IDs of its user, its user and network namespace, and its root file
// system with the volumes and files that are mounted in it.
//
// It owns RUN/container, a mount of its own that is private, so that nothing
// mounted below it shows up in other mount namespaces. Of a container it holds
//
//	RUN/container/ID/user, net   the namespaces, kept alive by bind mounts: they outlive its processes
//	RUN/container/ID/mnt         until HandOver, a link to the mount namespace with its root file system, which is there for as long as this process
//	RUN/container/ID/rootfs      where that is mounted in it: an overlay, and in it the volumes and files
//	RUN/container/ID/files       the content of the files that it mounts there
//	RUN/container/ID/l           where layers are mounted in it while the overlay is being made
//	RUN/container/ID/made.json   the parts that were made, to find them again and to detect drift
//
// beside it STATE/ranges.json, which says which user has which range for which
// layers, and in
// the container's layer (a file system that somebody else made for it) the
// overlay's folders upper and work.
//
// # Who owns a file
//
// In its user namespace a container has the IDs 0 to 65535. On the node they
// are a range that only its user has, so that an escaped process is nobody. An
// image's layers and a user's volumes are shared, by users and by containers:
// on disk their files carry the container's own IDs (0 is its root), and they
// are mounted with a mapping (an "id-mapped mount") of those to the range.
//
// The overlay's upper folder can't be mounted that way: the kernel makes an
// overlay with such a folder read-only. Files that a container writes beside its
// volumes are owned by its user's range on disk, so a range may not change while
// there is such a layer: that is why ranges are remembered with the layers that
// hold them, and why a damaged file of them is refused instead of dealing them out
// again. With its user's last layer a range is given back (GiveBack).
//
// # Mounts that a container can't lead astray
//
// A container's root and its volumes are hostile: links in the image, folders
// that another container of the user swaps for links meanwhile. A target is
// found name by name, each opened in the open folder before it and never as a
// link (openat2); links are read and followed inside the root only; a mount is
// made apart (open_tree, mount_setattr) and moved onto the open folder
// (move_mount). No path that a container can change is ever mounted on,
// unmounted or removed: to unmount, the mount namespace goes with all that is in it.
//
// All of it is in a mount namespace of its own, of which nobody on the node sees anything. There
// a container could move a mount, by renaming a folder above it, or another one with which
// it shares a volume in which the mount lies: to a path so long that neither runc nor
// containerd can read the list of mounts any more.
//
// The order for one container is: Make, create the
// container with a runtime in that mount namespace (runc takes its own copy of all
// mounts then), HandOver, start it.
// HandOver may be called again, also after the start. After a crash of the agent LetGo
// is for all. Before it is started once more, Make.
// Everything is idempotent: after a crash at any point, the next Make or Remove
// does the whole of it.
//
// # Requirements
//
// Linux 5.19, the first that takes id-mapped layers in an overlay (open_tree and
// mount_setattr are older), and file systems that can be mounted so, such as
// btrfs, ext4 and xfs, and tmpfs from 6.3 on: see Supported. croft's program must
// be executable by everybody, and all folders down to RUN/container must let
// everybody walk through. The runtime must be in the mount namespace of croft but to create
// a container, see Made.MountNS.
package rootfs
