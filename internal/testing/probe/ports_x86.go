//go:build amd64 || 386

package main

import "golang.org/x/sys/unix"

// portCalls open the machine's I/O ports.
func portCalls() map[string]func() error {
	return map[string]func() error{
		"ioperm": raw(unix.SYS_IOPERM, 0, 1, 1),
		"iopl":   raw(unix.SYS_IOPL, 3),
	}
}
