package unpack

import "golang.org/x/sys/unix"

// callsHere are those that only this architecture has.
func callsHere() []uint32 { return []uint32{unix.SYS_NEWFSTATAT, unix.SYS_LCHOWN, unix.SYS_POLL} }
