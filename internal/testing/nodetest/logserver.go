package nodetest

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// LogServer is a user's redis server, on loopback, to which nodes publish their
// log lines.
type LogServer struct {
	*Process
	Port int

	w *World
}

// StartLogServer starts a redis server on a free port and waits until it answers.
func (w *World) StartLogServer() *LogServer {
	w.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	s := &LogServer{w: w, Port: free.Addr().(*net.TCPAddr).Port}
	_ = free.Close()
	s.Start()
	return s
}

// Address is the server's address.
func (s *LogServer) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// Start starts the server, after a kill again on the same port.
func (s *LogServer) Start() {
	s.w.Helper()
	s.Process = s.w.Start("logs", "redis-server", "--port", fmt.Sprint(s.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.w.Dir)
	s.w.Until(Soon, "the log server answers", func() bool {
		s.MustRun()
		conn, err := redis.Dial("tcp", s.Address())
		if err != nil {
			return false
		}
		defer conn.Close()
		_, err = conn.Do("PING")
		return err == nil
	})
}

// Lines are the messages of a channel.
type Lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Subscribe collects the messages of a channel, until the server or the test ends.
func (s *LogServer) Subscribe(channel string) *Lines {
	s.w.Helper()
	conn, err := redis.Dial("tcp", s.Address())
	if err != nil {
		s.w.Fatal(err)
	}
	sub := redis.PubSubConn{Conn: conn}
	if err := sub.Subscribe(channel); err != nil {
		s.w.Fatal(err)
	}
	if _, ok := sub.Receive().(redis.Subscription); !ok {
		s.w.Fatalf("cannot subscribe to %s", channel)
	}
	lines, done := &Lines{}, make(chan struct{})
	go func() {
		defer close(done)
		for {
			switch m := sub.Receive().(type) {
			case redis.Message:
				lines.mu.Lock()
				lines.text.Write(append(m.Data, '\n'))
				lines.mu.Unlock()
			case error:
				return
			}
		}
	}()
	s.w.AfterKill(func() {
		_ = conn.Close()
		<-done
	})
	return lines
}

// Text is all messages so far, a line each.
func (l *Lines) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Has reports whether a line has all of parts.
func (l *Lines) Has(parts ...string) bool {
	for line := range strings.Lines(l.Text()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}
