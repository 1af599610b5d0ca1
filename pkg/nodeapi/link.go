package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Beat is the interval of each side's pings on a stream, Silence how long a side may
// send nothing before it counts as gone.
const (
	Beat    = 15 * time.Second
	Silence = 60 * time.Second
)

// Pulse is the interval of a side's pings, and how long the other side may send
// nothing. The zero Pulse is Beat and Silence.
type Pulse struct {
	Beat, Silence time.Duration
}

func (p Pulse) orDefault() Pulse {
	if p.Beat <= 0 {
		p.Beat = Beat
	}
	if p.Silence <= 0 {
		p.Silence = Silence
	}
	return p
}

// link is one side of a connection that carries frames.
type link struct {
	conn   net.Conn
	reader io.Reader
	pulse  Pulse
	in     []byte

	mu  sync.Mutex
	out []byte
}

// newLink takes over conn; reader holds its bytes that were read already.
func newLink(conn net.Conn, reader *bufio.Reader, p Pulse) *link {
	l := &link{conn: conn, pulse: p.orDefault(), in: make([]byte, MaxFrame)}
	l.reader = conn
	if reader != nil && reader.Buffered() > 0 {
		// Only the bytes that were read already come from there: HTTP's reader treats
		// errors in its own way.
		held, _ := reader.Peek(reader.Buffered())
		l.reader = io.MultiReader(bytes.NewReader(bytes.Clone(held)), conn)
	}
	return l
}

// read waits for a frame as long as the other side may be silent.
func (l *link) read() (Frame, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(l.pulse.Silence)); err != nil {
		return Frame{}, node.WithKind(node.Transient, errors.Wrap(err, "cannot read frame"))
	}
	f, err := ReadFrame(l.reader, l.in)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return f, node.Errorf(node.Transient, "cannot read frame: the other side said nothing for %s", l.pulse.Silence)
	}
	return f, err
}

// write sends a frame whole. A live peer that doesn't read delays it without limit;
// the reader notices whether the peer lives.
func (l *link) write(f Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = AppendFrame(l.out[:0], f)
	_, err := l.conn.Write(l.out)
	return errors.Wrap(err, "cannot write frame")
}

// beat sends pings until ctx is done.
func (l *link) beat(ctx context.Context) {
	tick := time.NewTicker(l.pulse.Beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if l.write(Frame{Kind: Ping}) != nil {
				return // the reader notices it too
			}
		}
	}
}

// outlet writes a stream of bytes as frames of one kind.
type outlet struct {
	link *link
	kind Kind
}

// Write implements io.Writer.
func (o outlet) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := min(MaxFrame, len(p)-done)
		if err := o.link.write(Frame{o.kind, p[done : done+n]}); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}
