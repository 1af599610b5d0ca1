package zdb

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/modules/zdb/port"
	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// handoverSocket is where a zdb takes its listener.
	handoverSocket = "handover.sock"
	// pairTime is the deadline of one exchange on it.
	pairTime = 5 * time.Second
)

// greet connects to a zdb's handover socket.
func greet(ctx context.Context, data string) (*handover.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, pairTime)
	defer cancel()
	conn, err := handover.Dial(ctx, filepath.Join(data, handoverSocket))
	if err != nil {
		return nil, node.Errorf(node.Transient, "it doesn't answer: %w", socket.Reason(err))
	}
	return conn, nil
}

// pairing brings the listeners of containers and their zdbs together.
type pairing struct {
	servers *servers
	ports   port.Range
	log     zerolog.Logger
}

// pair brings the listener of a container and its zdb together, and returns the
// connection that ends when they no longer are. Whatever the zdb does, the port has
// a listener, if it can be bound.
func (p *pairing) pair(ctx context.Context, s *server) (*handover.Conn, error) {
	select {
	case s.pairing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.pairing }()
	r, _, known := p.servers.state(s)
	if !known {
		return nil, node.Errorf(node.NotExist, "it isn't attached")
	}
	conn, err := greet(ctx, r.Data)
	var theirs []*os.File
	if err == nil {
		theirs = conn.Listeners()
		defer closeAll(theirs)
	}
	l, listenErr := p.listening(ctx, s, theirs)
	if err == nil {
		err = listenErr
		if err == nil && !l.Among(theirs) {
			err = give(ctx, conn, l)
		}
		if err != nil {
			_ = conn.Close()
		}
	} else if listenErr != nil {
		err = node.Errorf(node.KindOf(listenErr), "%w, and %s", listenErr, err)
	}
	p.note(s, err)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// listening makes sure that a container has a listener.
func (p *pairing) listening(ctx context.Context, s *server, theirs []*os.File) (*port.Listener, error) {
	r, l, _ := p.servers.state(s)
	if l != nil && l.Listens() {
		return l, nil
	}
	if l != nil {
		l.Close()
	}
	l, err := p.ports.Again(ctx, r.Port, theirs)
	p.servers.setListener(s, l)
	return l, err
}

func give(ctx context.Context, conn *handover.Conn, l *port.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, pairTime)
	defer cancel()
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := conn.Give(ctx, f); err != nil {
		return node.Errorf(node.Transient, "it doesn't take its listener: %w", socket.Reason(err))
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// note keeps why listener and zdb aren't together, and logs a change of that.
func (p *pairing) note(s *server, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	before, port := p.servers.setFault(s, text)
	log := p.log.With().Str("id", s.id).Str("type", "zdb").Str("step", "listen").Uint16("port", port).Logger()
	switch {
	case text == before || errors.Is(err, context.Canceled):
	case err != nil:
		log.Warn().Err(err).Msg("a zdb isn't reached at its port: tried again")
	default:
		log.Info().Msg("a zdb is reached at its port")
	}
}

// try pairs once.
func (p *pairing) try(ctx context.Context, s *server) {
	if conn, err := p.pair(ctx, s); err == nil {
		_ = conn.Close()
	}
}

// shut ends the listener of a container, also where only its zdb has it.
func (p *pairing) shut(ctx context.Context, s *server) {
	r, l, known := p.servers.state(s)
	if !known {
		return
	}
	if l == nil {
		l = foundAt(ctx, r)
	}
	if l != nil {
		l.End()
	}
}

// foundAt is the listener of a container that only its zdb has; nil for none.
func foundAt(ctx context.Context, r record) *port.Listener {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	conn, err := greet(ctx, r.Data)
	if err != nil {
		return nil
	}
	defer conn.Close()
	theirs := conn.Listeners()
	defer closeAll(theirs)
	return port.Find(theirs, r.Port)
}
