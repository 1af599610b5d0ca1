// Package btrfs speaks to mounted btrfs file systems through ioctls, without
// the btrfs command: subvolumes, quotas and their items in trees. It is the
// one place that gives their failures a node.Kind. It knows nothing of pools,
// names or reservations.
package btrfs
