// Package flist has the index of a flist in the format .fl, and decodes its blocks.
//
// A flist describes a tree of files, whose contents lie as blocks in stores elsewhere. The file itself is a SQLite
// database; package database reads it, package store fetches blocks. Here is what needs neither: Builder makes the index
// of the database's rows, and Block.Decode makes a block's content of its stored bytes.
//
// Flists come from strangers. An index is whole and consistent, and within the limits below, or there is none: errors are
// of kind node.Refused, and begin with "cannot use the flist".
//
// The format is that of rfs (https://github.com/threefoldtech/rfs). Its tables are
//
//	inode  ino, parent, name, size, uid, gid, mode, rdev, ctime, mtime
//	extra  ino, data: the target of a symbolic link
//	block  ino, id, key: the order of rows is that of a file's blocks
//	tag    key, value
//	route  start, end, url: the store of the blocks whose ID's first byte lies in between
//
// The root is inode 1, whose parent is 0. A file's content is cut every 512 KiB. Of each block, key is BLAKE2b-256 of the
// content; it is packed by raw snappy, then sealed by AES-256-GCM with the key and its first 12 bytes as nonce; id is
// BLAKE2b-256 of that.
package flist
