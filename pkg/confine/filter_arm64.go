package confine

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

// callsHere are the calls that only this architecture has.
func callsHere() []uint32 { return nil }
