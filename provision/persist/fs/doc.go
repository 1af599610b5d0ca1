// Package fs keeps objects in folders, one an instance: on another disk of this machine, or on a file system that others share, such as
// NFS. It holds no locks, since those of NFS come and go: a folder belongs to the machine that is named in its file ".machine".
//
//	FOLDER/
//	  .machine         the machine that the folder belongs to
//	  KIND/KEY         an object, with its frame
//
// It touches nothing outside its folders. A folder that isn't there, or isn't the one that was brought up, is down: nothing is
// ever written to an empty mount point in its place.
package fs
