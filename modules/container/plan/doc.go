// Package plan decides the parts of a container: it checks a specification, and derives
// from it and from its image the root file system, the labels in containerd, the first process, and a
// fingerprint by which a container that exists is compared with the one that is asked for.
//
// It owns nothing and has no effects; only Process and CheckStartable read, in the
// container's root.
package plan
