package web

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens the listeners that can be opened now. Serve retries the others.
func (s *Server) Listen(ctx context.Context) {
	for _, address := range s.Config.Listen {
		if err := s.open(ctx, address); err != nil {
			fmt.Fprintf(s.Log, "croft-init: cannot serve the terminal at %s, will try again: %v\n", address, err)
		}
	}
}

// open listens at one address, which may not be assigned yet: an IPv6 address takes a moment, and a
// network can be joined later.
func (s *Server) open(ctx context.Context, address netip.AddrPort) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1) }); err != nil {
			return err
		}
		return failed
	}}
	network := "tcp4"
	if address.Addr().Is6() {
		network = "tcp6"
	}
	l, err := config.Listen(ctx, network, address.String())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[address] = l
	return nil
}

// Serve answers until ctx is done, and returns when the sessions have ended.
func (s *Server) Serve(ctx context.Context) {
	server := &http.Server{
		Handler: s.handler(ctx), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: s.Patience, IdleTimeout: 15 * time.Second, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // clients must not write to the container's log
	}
	connections := make(chan struct{}, maxConnections)
	var listeners sync.WaitGroup
	for _, address := range s.Config.Listen {
		listeners.Go(func() {
			if l := s.await(ctx, address); l != nil {
				_ = server.Serve(&limited{Listener: l, slots: connections}) // Close below ends it
			}
		})
	}
	<-ctx.Done()
	server.Close() // the remaining listeners and idle connections
	listeners.Wait()
	for range maxSessions { // once all slots are ours, no session is left
		s.sessions <- struct{}{}
	}
}

// await returns the listener of an address, or nil when ctx is done first.
func (s *Server) await(ctx context.Context, address netip.AddrPort) net.Listener {
	again := time.NewTicker(s.Again)
	defer again.Stop()
	for {
		s.mu.Lock()
		l := s.ready[address]
		s.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
			_ = s.open(ctx, address) // Listen has logged the error
		}
	}
}

// limited accepts at most as many connections as there are slots.
type limited struct {
	net.Listener
	slots chan struct{}
}

// Accept returns the next connection for which a slot is free, and closes others.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	for err == nil {
		select {
		case l.slots <- struct{}{}:
			return &held{Conn: conn, slots: l.slots}, nil
		default: // no slot is free
		}
		conn.Close()
		conn, err = l.Listener.Accept()
	}
	return nil, err
}

// held is a connection that frees its slot when it is closed.
type held struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

// Close closes the connection.
func (h *held) Close() error {
	h.once.Do(func() { <-h.slots })
	return h.Conn.Close()
}
