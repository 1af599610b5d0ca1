// Package imagetest builds OCI images from small static Go programs and arbitrary tar entries, artifacts from files, and
// serves them from a registry on loopback that can be made to misbehave. It is for tests and the demo:
// it needs no network and no containerd, and keeps only a cache of compiled programs in the user's
// cache folder.
package imagetest
