// Package program says whether a container's first process can be started at
// all, before anything is: that the program is there, for this machine, and
// may be run by its user. The kernel tells only once the container's own
// process becomes the program, when nobody but its log hears.
//
// It reads files below the container's root, whatever links lie on the way,
// and never leaves it. It owns nothing and changes nothing.
package program
