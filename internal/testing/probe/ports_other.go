//go:build !amd64 && !386

package main

import "golang.org/x/sys/unix"

// portCalls are calls that this architecture lacks: they count as refused.
func portCalls() map[string]func() error {
	return map[string]func() error{
		"ioperm": func() error { return unix.EPERM },
		"iopl":   func() error { return unix.EPERM },
	}
}
