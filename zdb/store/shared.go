package store

// Shared is what the stores of one goroutine share: open files and a buffer
// for what they read. It must not be used by another goroutine.
type Shared struct {
	most int
	open []*handle
	hand int
	buf  []byte
	held int64 // bytes of indexes that wait for room on a full disk
}

// readBuffer is the size of the buffer that is kept between reads.
const readBuffer = 64 << 10

// NewShared makes a Shared that keeps at most so many files open.
func NewShared(files int) *Shared {
	return &Shared{most: max(files, 2), buf: make([]byte, readBuffer)}
}

// buffer answers n bytes, valid until it is called again.
func (s *Shared) buffer(n int) []byte {
	if n > len(s.buf) {
		s.buf = make([]byte, n)
	}
	return s.buf[:n]
}

// shrink gives back what a large value needed.
func (s *Shared) shrink() {
	if len(s.buf) > readBuffer {
		s.buf = make([]byte, readBuffer)
	}
}

// handle is a file that is opened when it is needed and may be closed in
// between.
type handle struct {
	path string
	disk disk
	f    file
	used bool
	at   int // its place in Shared.open
}

func (s *Shared) get(h *handle, create bool) (file, error) {
	if h.f != nil {
		h.used = true
		return h.f, nil
	}
	f, err := h.disk.Open(h.path, create)
	if err != nil {
		return nil, err
	}
	h.f, h.used = f, true
	if len(s.open) < s.most {
		h.at = len(s.open)
		s.open = append(s.open, h)
		return f, nil
	}
	// Second chance: the first that wasn't used since the hand came by.
	for s.open[s.hand].used {
		s.open[s.hand].used = false
		s.hand = (s.hand + 1) % len(s.open)
	}
	out := s.open[s.hand]
	out.f.Close()
	out.f = nil
	h.at = s.hand
	s.open[s.hand] = h
	s.hand = (s.hand + 1) % len(s.open)
	return f, nil
}

// drop closes a file that won't be needed again.
func (s *Shared) drop(h *handle) {
	if h.f == nil {
		return
	}
	h.f.Close()
	h.f = nil
	last := len(s.open) - 1
	s.open[h.at] = s.open[last]
	s.open[h.at].at = h.at
	s.open[last] = nil
	s.open = s.open[:last]
	if s.hand >= len(s.open) {
		s.hand = 0
	}
}
