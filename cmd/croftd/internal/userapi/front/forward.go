package front

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// forward sends a request to the agent, and its answer back. An error between the two closes the
// connection: no answer can be sent any more.
func (p *process) forward(w http.ResponseWriter, r *http.Request) {
	if p.carry(w, r) != nil {
		panic(http.ErrAbortHandler) // net/http closes the connection, and logs nothing
	}
}

func (p *process) carry(w http.ResponseWriter, r *http.Request) error {
	v, ok := r.Context().Value(visitorKey{}).(*visitor)
	if !ok {
		return errors.New("cannot serve a connection that isn't known")
	}
	rc := http.NewResponseController(w)
	now := time.Now()
	_ = rc.SetReadDeadline(now.Add(p.Body))
	_ = rc.SetWriteDeadline(now.Add(p.Body + p.Idle))
	raw, ok := asked(w, r).Encode()
	if !ok {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		return nil
	}
	_ = rc.SetReadDeadline(time.Time{})
	l, err := v.linked(func() (*link, error) {
		binding, err := nodeapi.Binding(r.TLS)
		if err != nil {
			return nil, err
		}
		return p.agent.open(r.Context(), binding, v.RemoteAddr())
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(r.Context(), func() { _ = l.Close() })
	defer stop()
	if err := wire.WriteFrame(l, wire.Request, raw); err != nil {
		return err
	}
	return p.answer(w, l, v)
}

// asked reads a request with its body.
func asked(w http.ResponseWriter, r *http.Request) wire.Asked {
	a := wire.Asked{Method: r.Method, Target: r.RequestURI, Header: r.Header}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		a.State = wire.BodyTooLarge
	case err != nil:
		a.State = wire.BodyUnread
	default:
		a.Body = body
	}
	return a
}

// answer relays the agent's answer to the user.
func (p *process) answer(w http.ResponseWriter, l *link, v *visitor) error {
	rc := http.NewResponseController(w)
	buffer := make([]byte, wire.MaxPart)
	for {
		f, err := wire.ReadFrame(l, buffer)
		if err != nil {
			return err
		}
		switch f.Kind {
		case wire.Head:
			var a wire.Answer
			if err := json.Unmarshal(f.Payload, &a); err != nil {
				return err
			}
			for name, values := range a.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(a.Status)
		case wire.Body:
			_, err = w.Write(f.Payload)
			if errors.Is(err, http.ErrBodyNotAllowed) {
				err = nil
			}
		case wire.Flush:
			_ = rc.SetWriteDeadline(time.Now().Add(p.Stuck))
			err = rc.Flush()
		case wire.Stay:
			err = wire.WriteFrame(l, wire.Stayed, []byte{v.stay(string(f.Payload))})
		case wire.Upgrade:
			return upgrade(rc, l)
		case wire.End:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// linger is how long one side may take to end after the other has.
const linger = 6 * time.Second

// upgrade carries bytes in both directions until both have ended.
func upgrade(rc *http.ResponseController, l *link) error {
	conn, buffered, err := rc.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer l.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	held, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	from := io.MultiReader(bytes.NewReader(bytes.Clone(held)), conn)
	up := make(chan struct{})
	go func() {
		defer close(up)
		_ = supervise.Catch("door up", func() error {
			if _, err := io.Copy(onlyWriter{l}, from); err != nil {
				_ = conn.Close()
			}
			return l.Close() // either the user or the agent has hung up
		})
	}()
	watched := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(watched)
		_ = supervise.Catch("door watch", func() error { watch(l, conn, stop); return nil })
	}()
	if _, err := io.Copy(conn, onlyReader{l}); err != nil {
		_ = conn.Close()
	} else if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(linger))
	}
	<-up
	close(stop)
	<-watched
	return nil
}

// onlyWriter and onlyReader hide ReadFrom and WriteTo, whose system calls (splice, sendfile) the filter
// refuses.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// watch sets a deadline on the user's connection once the agent has hung up: a goroutine blocked in a
// write to a user who doesn't read wouldn't notice.
func watch(l *link, conn net.Conn, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		gone := false
		err := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd)}}
			n, err := unix.Ppoll(fds, &unix.Timespec{}, nil)
			gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		})
		if err != nil || gone {
			_ = conn.SetDeadline(time.Now().Add(linger))
			return
		}
	}
}
