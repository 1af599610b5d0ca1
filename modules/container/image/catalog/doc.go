// Package catalog owns the records of images in containerd, in each user's
// namespace: an image object croft.local/label/LABEL for each reservation
// and croft.local/reference/HASH for the last image of a reference, a lease
// croft.pull.LABEL for each pull that isn't done, and a view croft.view.CHAIN for
// each set of layers that a container was made of, shared by all containers on them.
//
// An object holds a manifest, the manifest its config, and the config the unpacked
// layers with their view, by labels that containerd's garbage collector follows.
// Packed layers aren't held: they go once they are unpacked.
//
// An image is pinned while a label has it, unused when only its reference leads to
// it, and evicted when it is unused for long or room is needed. It fetches and
// unpacks nothing.
package catalog
