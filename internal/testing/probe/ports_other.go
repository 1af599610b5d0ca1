//go:build !amd64 && !386

package main

import "golang.org/x/sys/unix"

// portCalls are nothing that this kind of machine has: what is refused to all is.
func portCalls() map[string]func() error {
	return map[string]func() error{
		"ioperm": func() error { return unix.EPERM },
		"iopl":   func() error { return unix.EPERM },
	}
}
