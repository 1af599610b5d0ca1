package disk

// Pool holds the open files and the read buffer that the stores of one goroutine
// share. It must not be used by another goroutine.
type Pool struct {
	most     int
	open     []*Handle
	hand     int
	buf      []byte
	overflow int64 // bytes of indexes that wait for room on a full disk
}

// readBuffer is the size of the buffer that is kept between reads.
const readBuffer = 64 << 10

// NewPool makes a Pool that keeps at most so many files open.
func NewPool(files int) *Pool {
	return &Pool{most: max(files, 2), buf: make([]byte, readBuffer)}
}

// Buffer answers n bytes, valid until it is called again.
func (s *Pool) Buffer(n int) []byte {
	if n > len(s.buf) {
		s.buf = make([]byte, n)
	}
	return s.buf[:n]
}

// Shrink frees a buffer that grew for a large value.
func (s *Pool) Shrink() {
	if len(s.buf) > readBuffer {
		s.buf = make([]byte, readBuffer)
	}
}

// Handle is a file that a Pool opens when it is needed and may close in
// between.
type Handle struct {
	Path string
	Disk Disk
	f    File
	used bool
	at   int // its place in Pool.open
}

// Get answers the open file of a handle; another may be closed for it.
func (s *Pool) Get(h *Handle, create bool) (File, error) {
	if h.f != nil {
		h.used = true
		return h.f, nil
	}
	f, err := h.Disk.Open(h.Path, create)
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

// Drop closes a file that won't be needed again.
func (s *Pool) Drop(h *Handle) {
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
