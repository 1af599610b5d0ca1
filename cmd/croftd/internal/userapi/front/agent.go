package front

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
)

// agent is who started this process, at the other end of the control socket.
type agent struct {
	control *wire.Control
	// proving are the questions for a signature that may be open at a time: strangers
	// can ask for them, and others need the node's key too.
	proving chan struct{}

	mu      sync.Mutex
	last    uint32
	waiting map[uint32]chan wire.Message
}

func newAgent(c *wire.Control) *agent {
	return &agent{control: c, proving: make(chan struct{}, wire.MaxProofs), waiting: map[uint32]chan wire.Message{}}
}

// listen takes what the agent says until it has gone.
func (a *agent) listen(tunnel *inlet) error {
	for {
		m, err := a.control.FromAgent()
		if err != nil {
			return err
		}
		switch m.Kind {
		case wire.Proof, wire.Link:
			a.answered(m)
		case wire.Tunnel:
			if conn, err := wire.Socket(m.File); err == nil {
				tunnel.put(conn)
			}
		case wire.Beat:
			if err := a.control.Send(wire.Message{Kind: wire.Beat, Number: m.Number}); err != nil {
				return err
			}
		}
	}
}

// answered gives an answer to who waits for it.
func (a *agent) answered(m wire.Message) {
	a.mu.Lock()
	to := a.waiting[m.Number]
	delete(a.waiting, m.Number)
	a.mu.Unlock()
	if to != nil {
		to <- m
		return
	}
	closeFile(m.File)
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// ask asks the agent something, and waits for the answer.
func (a *agent) ask(ctx context.Context, kind wire.Kind, body []byte) (wire.Message, error) {
	answer := make(chan wire.Message, 1)
	a.mu.Lock()
	a.last++
	number := a.last
	a.waiting[number] = answer
	a.mu.Unlock()
	if err := a.control.Send(wire.Message{Kind: kind, Number: number, Body: body}); err != nil {
		return wire.Message{}, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		a.mu.Lock()
		_, still := a.waiting[number]
		delete(a.waiting, number)
		a.mu.Unlock()
		if !still {
			closeFile((<-answer).File)
		}
		return wire.Message{}, ctx.Err()
	}
}

// prove asks for the node's signature for a challenge and this process's key.
func (a *agent) prove(ctx context.Context, challenge []byte) ([]byte, error) {
	select {
	case a.proving <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.proving }()
	// The agent counts what is open too, so the answer is waited for; it comes.
	m, err := a.ask(context.WithoutCancel(ctx), wire.Proof, challenge)
	if err != nil {
		return nil, err
	}
	if len(m.Body) == 0 || m.Body[0] != 1 {
		return nil, errors.New("cannot show the node's key")
	}
	return m.Body[1:], nil
}

// open opens a link for a connection.
func (a *agent) open(ctx context.Context, binding []byte, remote net.Addr) (*link, error) {
	m, err := a.ask(ctx, wire.Link, nil)
	if err != nil {
		return nil, err
	}
	if m.File == nil {
		return nil, errors.New("cannot reach the agent: there are too many connections")
	}
	conn, err := wire.Socket(m.File)
	if err != nil {
		return nil, err
	}
	if err := wire.WriteFrame(conn, wire.Connection, append(binding[:len(binding):len(binding)], remote.String()...)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &link{conn}, nil
}

// link is a connection's way to the agent.
type link struct{ *net.UnixConn }
