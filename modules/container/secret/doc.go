// Package secret keeps the variables that users have sealed to the node, once they
// are opened: in memory, and on no disk.
//
// It owns RUN/secret, a tmpfs that only root can search and that isn't swapped out
// where the kernel can promise that, and in it a file USER/ID a container, which is
// mounted in the container and read there by croft's init. A file holds
// "NAME=VALUE" entries, a zero byte after each. It is removed with the container, and lost
// with the machine's power: the variables are opened again whenever the container is made
// again.
//
// It may not log a value, nor put one into an error.
package secret
