package front

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
)

// agent is the node's agent, at the other end of the control socket.
type agent struct {
	control *wire.Control
	// proving bounds the signature requests at a time: strangers can cause them, and others need the
	// node's key too.
	proving chan struct{}

	mu      sync.Mutex
	last    uint32
	waiting map[uint32]chan wire.Message
}

func newAgent(c *wire.Control) *agent {
	return &agent{control: c, proving: make(chan struct{}, wire.MaxProofs), waiting: map[uint32]chan wire.Message{}}
}

// listen receives the agent's messages until it has gone.
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

// answered passes an answer to the goroutine that waits for it.
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

// ask sends the agent a question and waits for the answer.
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

// prove requests the node's signature over a challenge and this process's key.
func (a *agent) prove(ctx context.Context, challenge []byte) ([]byte, error) {
	select {
	case a.proving <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.proving }()
	// The agent limits open requests too, so wait for the answer, which always comes.
	m, err := a.ask(context.WithoutCancel(ctx), wire.Proof, challenge)
	if err != nil {
		return nil, err
	}
	if len(m.Body) == 0 || m.Body[0] != 1 {
		return nil, errors.New("cannot show the node's key")
	}
	return m.Body[1:], nil
}

// open opens the link of a connection.
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

// link is the stream between a connection and the agent.
type link struct{ *net.UnixConn }
