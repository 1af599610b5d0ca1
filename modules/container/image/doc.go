// Package image pulls OCI images for reservations, unpacks them with
// containerd's overlayfs snapshotter in the namespace of the reservation's user,
// keeps a reservation's image for as long as the reservation lives, and removes
// unused data.
//
// Package source opens images in registries and files, package catalog has their
// records in containerd, package unpack unpacks a layer in a process of its own.
// Here are the pulls that run, in fair turns, and the limits: a user's budget, the
// room on the disk, and a user's wasted work.
//
// Nothing that comes from a source is trusted: each blob is checked by digest and
// size, and all is bounded before and while it is read. No blob is taken over from
// another user's namespace: each user's pull fetches its own bytes, so that a
// digest isn't a key to other people's images.
package image
