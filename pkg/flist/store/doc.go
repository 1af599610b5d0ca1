// Package store fetches the blocks of a flist from the stores that its routes name: over HTTP, and from 0-db.
//
// The flist is a stranger's, and so are its stores. They are asked as pkg/fetch and pkg/dial say, each answer is bounded
// before it is read, has a deadline, and is checked before any of it is used. Other stores, such as folders, are refused:
// they would be the node's own.
package store
