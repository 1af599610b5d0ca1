// Package database reads the SQLite database of a flist, in a process of its own: SQLite is C code, translated to Go, that
// a hostile database may make do anything. Reader starts such a process and hands it the open file; Serve is that process.
//
// The process is nobody on the node, in namespaces of its own, without network and capabilities. Before it reads a byte of
// the file, a filter of system calls lets it do nothing but read and write what is open: it can open no file, so SQLite
// reads through a file system of one file (modernc.org/sqlite/vfs). Memory and processor time have a ceiling.
//
// It only sends rows, in a binary form of its own (wire.go). The other side bounds each as it comes, trusts none, and makes
// the index of them (flist.Builder).
package database
