// Package disk is the file system as a store sees it.
//
// Disk and File are the operations that a store needs, so that tests can fill
// the disk, cut its power and damage it; Real is the machine's. A Pool limits
// the number of open files. An Overflow keeps recovery's writes in memory
// while the disk is full. The package knows nothing of the files' content.
package disk
