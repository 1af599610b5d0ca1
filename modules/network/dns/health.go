package dns

import "sync"

// health has the last read error of each socket that can't be read now.
type health struct {
	mu     sync.Mutex
	errors map[any]error
}

// failed notes that a socket can't be read.
func (h *health) failed(socket any, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.errors == nil {
		h.errors = map[any]error{}
	}
	h.errors[socket] = err
}

// recovered forgets a socket's error.
func (h *health) recovered(socket any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.errors, socket)
}

// failure is the error of one of the failed sockets, nil when all are read.
func (h *health) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, err := range h.errors {
		return err
	}
	return nil
}
