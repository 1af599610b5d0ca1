// Package clock has a booted node's clock kept right: it writes chrony's configuration and tells chrony which servers to ask, tells how
// far the kernel trusts the clock, and keeps a clock whose battery is empty from being decades behind.
//
// It owns chrony's files below its run folder and state folder, and the file of the last time. It doesn't start chronyd: the node's
// supervisor does, with the command that Prepare returns.
package clock
