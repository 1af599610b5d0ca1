// Package unpack makes a layer's folder of its packed bytes, in a process of its
// own: the code that parses untrusted tar, gzip and zstd has no rights on the
// node. Run starts such a process for one layer and hands it all that it needs as
// open descriptors; Serve is that process.
//
// The process is nobody on the node: a user namespace of its own maps 65,536 IDs
// from FirstID on, of which no user, container or other program has any. It has
// only the capabilities, over these IDs only, that changing owners, modes and
// attributes of files needs. Its root is the layer's folder, by a mount with its
// IDs mapped; layers below are open to be read. It has no network, sees no other
// process, and a filter of system calls lets it do nothing but read, write and make
// files there. Memory and processor time have a ceiling.
//
// Its answer is trusted no more than the layer itself: it is read with a
// bound, and counts for that layer only.
package unpack
