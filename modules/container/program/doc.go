// Package program checks whether a container's first process can be started: that
// its program exists, is for this machine, and may be run by its user. The kernel
// would report a failure only when the container's process executes the program, to the
// container's log alone.
//
// It reads files below the container's root, and follows no link out of it. It owns nothing
// and changes nothing.
package program
