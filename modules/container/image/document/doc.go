// Package document reads what an image says of itself: manifests, indexes,
// configs, and the list of docker save. It keeps only what croft uses, counts
// entries while it reads them, and takes no memory for what it passes over, so
// that no document of MostBytes takes more than a few times its size. It knows no
// disk and no network.
package document
