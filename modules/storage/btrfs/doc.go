// Package btrfs speaks to mounted btrfs file systems through ioctls, without
// the btrfs command: subvolumes, quotas and what trees say of them. It is the
// one place that gives their failures a node.Kind. It knows nothing of pools,
// names or reservations.
package btrfs
