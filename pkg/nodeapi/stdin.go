package nodeapi

import (
	"io"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
)

// inputRoom is how much of stdin may be in transit, in bytes. Its sender waits for
// credit, so that the frames' reader never waits for a process that doesn't read its
// input, and still notices whether the other side is there.
const inputRoom = 256 << 10

// input is stdin at the node: filled by frames, read by the process.
type input struct {
	// credit allows the sender n more bytes.
	credit func(n uint32) error

	mu     sync.Mutex
	filled *sync.Cond
	held   []byte
	// owed is the number of bytes read but not credited yet.
	owed int
	err  error
}

func newInput(credit func(n uint32) error) *input {
	in := &input{credit: credit}
	in.filled = sync.NewCond(&in.mu)
	return in
}

// fill adds received bytes. More than there is room for is the sender's mistake.
func (in *input) fill(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == io.EOF { //nolint:errorlint // set here, bare
		return node.Errorf(node.Invalid, "cannot take stdin: it was closed")
	}
	if len(in.held)+in.owed+len(p) > inputRoom {
		return node.Errorf(node.Invalid, "cannot take stdin: more came than was allowed")
	}
	in.held = append(in.held, p...)
	in.filled.Broadcast()
	return nil
}

// end makes Read return err once all is read; the first end counts.
func (in *input) end(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
	}
	in.filled.Broadcast()
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, told, err := in.take(p)
	if told > 0 {
		if err := in.credit(uint32(told)); err != nil {
			return n, err
		}
	}
	return n, err
}

// take returns the bytes there, and the credit due: not for each byte.
func (in *input) take(p []byte) (n, told int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.held) == 0 && in.err == nil {
		in.filled.Wait()
	}
	if len(in.held) == 0 {
		return 0, 0, in.err
	}
	n = copy(p, in.held)
	in.held = in.held[:copy(in.held, in.held[n:])]
	in.owed += n
	if in.owed >= inputRoom/4 || len(in.held) == 0 {
		told, in.owed = in.owed, 0
	}
	return n, told, nil
}

// room is how much of stdin the user may still send.
type room struct {
	mu    sync.Mutex
	more  *sync.Cond
	left  int
	ended bool
}

func newRoom() *room {
	r := &room{left: inputRoom}
	r.more = sync.NewCond(&r.mu)
	return r
}

// take waits for room and takes at most n of it; 0 when the stream has ended.
func (r *room) take(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.left == 0 && !r.ended {
		r.more.Wait()
	}
	if r.ended {
		return 0
	}
	n = min(n, r.left)
	r.left -= n
	return n
}

func (r *room) add(n uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = min(r.left+int(n), inputRoom)
	r.more.Broadcast()
}

func (r *room) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.more.Broadcast()
}
