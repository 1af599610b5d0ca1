package tunnel

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-edge/croft/pkg/nodeapi"
)

// chunk is the size of a connection's buffer in the explorer, each way; the tunnel's own windows
// hold at most 256 KiB more.
const chunk = 16 << 10

// linger is how long one way may go on after the other has ended.
const linger = 10 * time.Second

// Connection is a user's connection through a tunnel. Carry or Drop ends it.
type Connection struct {
	idle   time.Duration
	tunnel *nodeapi.Tunnel
	far    net.Conn
	leave  func()
	// over is closed when the connection must end.
	once sync.Once
	over chan struct{}
}

// end signals that the connection must end; carry then ends it.
func (c *Connection) end() { c.once.Do(func() { close(c.over) }) }

// Drop gives up a connection that carries nothing.
func (c *Connection) Drop() {
	_ = c.far.Close()
	c.leave()
}

// Carry copies bytes both ways until either side ends, nothing has come for Limits.Idle, or its
// place went to another. It doesn't block; near is closed in the end.
func (c *Connection) Carry(near net.Conn) {
	go func() {
		defer c.leave()
		c.carry(near)
	}()
}

// carry copies both ways until both are over.
func (c *Connection) carry(near net.Conn) {
	done := make(chan struct{})
	defer close(done)
	stop := func() {
		c.end()
		_ = near.Close()
		_ = c.far.Close()
	}
	defer stop()
	go func() {
		select {
		case <-c.tunnel.Done():
		case <-c.over:
		case <-done:
			return
		}
		stop()
	}()
	w := &watch{idle: c.idle}
	w.moved.Store(time.Now().UnixNano())
	w.arm(stop)
	defer w.stop()
	last := sync.OnceValue(func() *time.Timer { return time.AfterFunc(linger, stop) })
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, c.far}, {c.far, near}} {
		ways.Go(func() {
			if _, err := io.CopyBuffer(moving{way[1], w}, plain{way[0]}, make([]byte, chunk)); err != nil {
				stop()
				return
			}
			halfClose(way[1])
			last()
		})
	}
	ways.Wait()
	last().Stop()
}

// halfClose closes the writing side.
func halfClose(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// plain hides the reader's other methods (WriterTo), so that CopyBuffer does the copying.
type plain struct{ io.Reader }

// moving records the time of each write.
type moving struct {
	io.Writer
	*watch
}

// Write implements io.Writer.
func (m moving) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	m.moved.Store(time.Now().UnixNano())
	return n, err
}

// watch ends an idle connection.
type watch struct {
	idle  time.Duration
	moved atomic.Int64

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (w *watch) arm(end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	since := time.Since(time.Unix(0, w.moved.Load()))
	if since >= w.idle {
		end()
		return
	}
	w.timer = time.AfterFunc(w.idle-since, func() { w.arm(end) })
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
