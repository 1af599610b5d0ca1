// Package image pulls OCI images for reservations, unpacks them with
// containerd's overlayfs snapshotter in the namespace of the user who asked,
// keeps what a reservation was given for as long as it lives, and removes what
// nothing uses.
//
// All that it knows is in containerd, in each user's namespace: an image object
// croft.local/label/LABEL for each reservation and croft.local/reference/HASH
// for what a reference led to last, a lease croft.pull.LABEL for each pull that
// isn't done, and a view croft.view.CHAIN for each set of layers that somebody
// asked for, shared by all containers on them. The objects hold a manifest and a
// config, and by the config the unpacked layers with their view; packed layers
// go once they are unpacked.
//
// Registries are asked through pkg/dial only, files are opened below the
// allowed paths only, or where the node's own images lie (Own). Nothing that comes from either is believed: each blob is
// checked by digest and size, and all is bounded before and while it is read.
// No blob is taken over from another user's namespace: who asks for a layer
// fetches its bytes, so that a digest isn't a key to other people's images.
package image
