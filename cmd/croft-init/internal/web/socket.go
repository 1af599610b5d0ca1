package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft-init/internal/console"
)

const (
	// chunk is the maximum size of a message, side the longest side of a terminal.
	chunk = 16 << 10
	side  = 1000
	// last is how long a shell may take to end once it has closed its terminal.
	last = time.Second
)

// socket serves one terminal: bytes in both directions as binary messages, sizes as text.
func (s *Server) socket(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if !ownPage(r) {
		refuse(w, http.StatusForbidden, "cannot open a terminal for another page: Origin must be http:// and the Host")
		return
	}
	// The origin was checked above, more strictly.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.CloseNow() //nolint:errcheck // closed already, or nobody to tell
	conn.SetReadLimit(maxMessage)
	select {
	case s.sessions <- struct{}{}:
		defer func() { <-s.sessions }()
	default:
		s.bye(conn, websocket.StatusTryAgainLater, fmt.Sprintf("%d terminals are open already: close one", maxSessions))
		return
	}
	terminal, err := s.Open(console.Size{Columns: 80, Rows: 24})
	if err != nil {
		s.bye(conn, websocket.StatusInternalError, explain(err))
		return
	}
	defer terminal.Close()
	s.talk(ctx, conn, terminal)
}

// explain is the message to the user when no shell starts.
func explain(err error) string {
	if errors.Is(err, ErrNoShell) {
		return "This image has no shell: neither $SHELL nor " + strings.Join(console.Shells(), ", ") + " is there."
	}
	return "The shell doesn't start: " + err.Error()
}

// talk copies bytes until one side ends.
func (s *Server) talk(ctx context.Context, conn *websocket.Conn, terminal Terminal) {
	// ended closes the connection at once; ctx only asks for a farewell.
	ended, end := context.WithCancel(context.Background())
	defer end()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	output := make(chan struct{})
	tasks.Go(func() { defer close(output); s.output(ended, conn, terminal) })
	tasks.Go(func() { defer end(); s.input(ended, conn, terminal) })
	tasks.Go(func() { defer end(); s.ask(ended, conn) })
	select {
	case <-ended.Done():
		conn.CloseNow() //nolint:errcheck // nobody is left to tell
	case <-output: // the client doesn't read, or the terminal has no writer: the shell is about to end
		select {
		case <-terminal.Done():
		case <-time.After(last):
		}
		s.bye(conn, websocket.StatusNormalClosure, verdict(terminal))
	case <-terminal.Done():
		_ = terminal.Drain() // if that fails, all output is sent, and Close ends it
		select {
		case <-output:
		case <-ended.Done():
		}
		s.bye(conn, websocket.StatusNormalClosure, verdict(terminal))
	case <-ctx.Done():
		s.bye(conn, websocket.StatusGoingAway, "the container has ended")
	}
	end()
	terminal.Close()
}

// verdict is the message that the shell has ended.
func verdict(terminal Terminal) string {
	select {
	case <-terminal.Done():
		return fmt.Sprintf("the shell has ended with code %d", terminal.Code())
	default:
		return "the shell has closed its terminal"
	}
}

// bye closes the connection with a reason.
func (s *Server) bye(conn *websocket.Conn, code websocket.StatusCode, reason string) {
	const most = 123 // bytes, the protocol's
	if len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "")
	}
	_ = conn.Close(code, reason) // a client that has gone needs no reason
}

// output sends the output of the terminal's programs. A client that doesn't read blocks it, so the
// programs wait; after Patience the client is dropped.
func (s *Server) output(ctx context.Context, conn *websocket.Conn, terminal Terminal) {
	buffer := make([]byte, chunk)
	for {
		n, err := terminal.Read(buffer)
		if n > 0 {
			patience, cancel := context.WithTimeout(ctx, s.Patience)
			failed := conn.Write(patience, websocket.MessageBinary, buffer[:n])
			cancel()
			if failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// input writes typed input to the terminal, and resizes it.
func (s *Server) input(ctx context.Context, conn *websocket.Conn, terminal Terminal) {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			err = terminal.Write(message)
		} else {
			err = resize(terminal, message)
		}
		if err != nil {
			s.bye(conn, websocket.StatusPolicyViolation, err.Error())
			return
		}
	}
}

func resize(terminal Terminal, message []byte) error {
	var size console.Size
	if err := json.Unmarshal(message, &size); err != nil || size.Columns < 1 || size.Rows < 1 || size.Columns > side || size.Rows > side {
		return errors.Errorf(`cannot resize: a text message must be {"columns": 1 to %d, "rows": 1 to %d}`, side, side)
	}
	return terminal.Resize(size)
}

// ask pings the client, and returns when it doesn't answer.
func (s *Server) ask(ctx context.Context, conn *websocket.Conn) {
	tick := time.NewTicker(s.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patience, cancel := context.WithTimeout(ctx, s.Patience)
		err := conn.Ping(patience)
		cancel()
		if err != nil {
			return
		}
	}
}
