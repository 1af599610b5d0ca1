package links

import (
	"os"
	"sync"
	"syscall"
)

// HoldForks keeps this process from forking until release is called, for what no child may have open even until its
// exec: what is opened and closed meanwhile is closed everywhere.
func HoldForks() (release func()) {
	firstChild()
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

// firstChild waits until Go has forked the child by which it learns once, before it starts its first process, whether
// the kernel has pidfds: it holds no ForkLock for that one (syscall.os_checkClonePidfd, as of Go 1.26).
var firstChild = sync.OnceFunc(func() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release()
	}
})
