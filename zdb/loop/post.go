package loop

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// mailbox holds what other goroutines want to have run on the loop's thread.
type mailbox struct {
	mu     sync.Mutex
	funcs  []func()
	closed bool
	// fd is an eventfd, which wakes the loop up.
	fd int
}

// Post has f run on the loop's thread, soon. It may be called from any goroutine,
// and says false, without running f ever, once the loop has ended.
func (l *Loop) Post(f func()) bool {
	m := &l.mail
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

// wake makes the loop look around. An eventfd that is full does so too.
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

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = unix.Close(m.fd)
}

// take returns what is there and forgets it. When last is set and there is
// nothing, the mailbox closes.
func (m *mailbox) take(last bool) []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.funcs
	m.funcs = nil
	m.closed = last && len(out) == 0
	return out
}

// posted runs what other goroutines have posted.
func (l *Loop) posted() {
	var n [8]byte
	_, _ = unix.Read(l.mail.fd, n[:])
	for _, f := range l.mail.take(false) {
		f()
	}
}
