package loop

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// mailbox holds functions that other goroutines want to run on the loop's thread.
// All its methods but run are safe for concurrent use.
type mailbox struct {
	mu     sync.Mutex
	funcs  []func()
	closed bool
	// fd is an eventfd, which wakes the loop up.
	fd int
}

func newMailbox() (*mailbox, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &mailbox{fd: fd}, os.NewSyscallError("eventfd", err)
}

// post adds f. It returns false, and f never runs, once the mailbox is closed.
func (m *mailbox) post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.funcs = append(m.funcs, f)
	if len(m.funcs) == 1 {
		m.wake()
	}
	return true
}

// wake has the poller return. A full eventfd does so too.
func (m *mailbox) wake() {
	one := binary.NativeEndian.AppendUint64(nil, 1)
	_, _ = unix.Write(m.fd, one)
}

// nudge wakes a loop that may have ended.
func (m *mailbox) nudge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.wake()
	}
}

// take empties the mailbox. With last set it closes the mailbox if that is empty.
func (m *mailbox) take(last bool) []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.funcs
	m.funcs = nil
	m.closed = last && len(out) == 0
	return out
}

// run runs the posted functions.
func (m *mailbox) run() {
	var n [8]byte
	_, _ = unix.Read(m.fd, n[:])
	for _, f := range m.take(false) {
		f()
	}
}

// end runs the posted functions, also those that they post, and closes the mailbox.
func (m *mailbox) end() {
	for {
		funcs := m.take(true)
		if len(funcs) == 0 {
			break
		}
		for _, f := range funcs {
			f()
		}
	}
	m.close()
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	_ = unix.Close(m.fd)
}
