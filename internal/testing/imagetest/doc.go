// Package imagetest builds OCI images out of small static Go programs and
// arbitrary tar entries, and serves them from a registry on loopback that can
// be told to misbehave. It is for tests and for the demo: it needs no network,
// no containerd, and keeps nothing but a cache of compiled programs in the
// user's cache folder.
package imagetest
