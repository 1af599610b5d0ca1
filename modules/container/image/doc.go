// Package image pulls OCI images for reservations, unpacks them with
// containerd's overlayfs snapshotter in the namespace of the user who asked,
// keeps what a reservation was given for as long as it lives, and removes what
// nothing uses.
//
// Package source opens images in registries and files, package catalog has their
// records in containerd, package unpack unpacks a layer in a process of its own.
// Here are the pulls that run, in fair turns, and the limits: a user's budget, the
// room on the disk, and what a user may waste.
//
// Nothing that comes from a source is trusted: each blob is checked by digest and
// size, and all is bounded before and while it is read. No blob is taken over from
// another user's namespace: whoever asks for a layer fetches its bytes, so that a
// digest isn't a key to other people's images.
package image
