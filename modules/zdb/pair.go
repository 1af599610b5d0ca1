package zdb

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// handoverSocket is where a zdb takes its listener.
	handoverSocket = "handover.sock"
	// pairTime is how long a zdb may take for that.
	pairTime = 5 * time.Second
)

// greet connects to a zdb's handover socket.
func greet(ctx context.Context, data string) (*handover.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, pairTime)
	defer cancel()
	conn, err := handover.Dial(ctx, filepath.Join(data, handoverSocket))
	if err != nil {
		return nil, node.Errorf(node.Transient, "it doesn't answer: %w", reason(err))
	}
	return conn, nil
}

// pair brings the listener of a container and its zdb together, and returns the
// connection whose end says that they no longer are. Whatever the zdb does, the
// port is listened on, if it can be.
func (m *Module) pair(ctx context.Context, s *server) (*handover.Conn, error) {
	select {
	case s.pairing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.pairing }()
	r, _, known := m.state(s)
	if !known {
		return nil, node.Errorf(node.NotExist, "it isn't in hand")
	}
	conn, err := greet(ctx, r.Data)
	var theirs []*os.File
	if err == nil {
		theirs = conn.Listeners()
		defer closeAll(theirs)
	}
	l, listenErr := m.listening(ctx, s, theirs)
	if err == nil {
		err = listenErr
		if err == nil && !has(theirs, l) {
			err = give(ctx, conn, l)
		}
		if err != nil {
			_ = conn.Close()
		}
	} else if listenErr != nil {
		err = node.Errorf(node.KindOf(listenErr), "%w, and %s", listenErr, err)
	}
	m.note(s, err)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// listening makes sure that a container has a listener.
func (m *Module) listening(ctx context.Context, s *server, theirs []*os.File) (*listener, error) {
	r, l, _ := m.state(s)
	if l != nil && l.listens() {
		return l, nil
	}
	if l != nil {
		l.close()
	}
	l, err := m.again(ctx, r.Port, theirs)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.listener = l
	return l, err
}

// has reports whether the listener is among those that a zdb has.
func has(theirs []*os.File, l *listener) bool {
	for _, f := range theirs {
		other, err := adopt(f)
		if err != nil {
			continue
		}
		other.close()
		if other.cookie == l.cookie {
			return true
		}
	}
	return false
}

func give(ctx context.Context, conn *handover.Conn, l *listener) error {
	ctx, cancel := context.WithTimeout(ctx, pairTime)
	defer cancel()
	f, err := l.file()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := conn.Give(ctx, f); err != nil {
		return node.Errorf(node.Transient, "it doesn't take its listener: %w", reason(err))
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// note keeps why listener and zdb aren't together, and says so when that changes.
func (m *Module) note(s *server, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	m.mu.Lock()
	before := s.fault
	s.fault = text
	port := s.record.Port
	m.mu.Unlock()
	log := m.cfg.Log.With().Str("id", s.id).Str("type", "zdb").Str("step", "listen").Uint16("port", port).Logger()
	switch {
	case text == before || errors.Is(err, context.Canceled):
	case err != nil:
		log.Warn().Err(err).Msg("a zdb isn't reached at its port: tried again")
	default:
		log.Info().Msg("a zdb is reached at its port")
	}
}

// try pairs once.
func (m *Module) try(ctx context.Context, s *server) {
	if conn, err := m.pair(ctx, s); err == nil {
		_ = conn.Close()
	}
}
