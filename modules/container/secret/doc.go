// Package secret keeps the variables that users have sealed to the node, once they
// are opened: in memory, and on no disk.
//
// It owns RUN/secret, a tmpfs that only root walks into and that isn't swapped out
// where the kernel can promise that, and in it a file USER/ID a container, which is
// mounted in the container and read there by croft's init. A file holds
// "NAME=VALUE" entries, a zero byte after each. It goes with the container, and all
// of them with the machine's power: who makes the container again opens the secrets
// again, too.
//
// It may not log a value, nor put one into an error.
package secret
