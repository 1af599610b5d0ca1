// Package sshtest is a small ssh server for tests, on loopback: one user key, one command at a time, whose answer the test
// makes. The client that speaks to it is the real ssh program.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Config is what a Server does.
type Config struct {
	// Answer runs a command, and returns its exit code.
	Answer func(command string, stdout, stderr io.Writer) uint32
	// Refuse is whether the user's key is refused.
	Refuse bool
}

// Server is a running ssh server.
type Server struct {
	// HostKey is its public key, as a line of authorized_keys.
	HostKey string

	cfg      Config
	server   *ssh.ServerConfig
	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	logins []string
}

// New starts a server that accepts a user's key, which it writes to the file identity.
func New(cfg Config, identity string) (*Server, error) {
	user, userPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(identity, userPEM, 0o600); err != nil {
		return nil, err
	}
	host, _, err := newKey()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, HostKey: string(ssh.MarshalAuthorizedKey(host.PublicKey())), conns: map[net.Conn]bool{}}
	s.server = &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if s.cfg.Refuse || string(key.Marshal()) != string(user.PublicKey().Marshal()) {
			return nil, errors.New("refused")
		}
		return nil, nil
	}}
	s.server.AddHostKey(host)
	var config net.ListenConfig
	if s.listener, err = config.Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.all.Go(s.accept)
	return s, nil
}

// NewHostKey is a host key of no server, as a line of authorized_keys.
func NewHostKey() (string, error) {
	key, _, err := newKey()
	if err != nil {
		return "", err
	}
	return string(ssh.MarshalAuthorizedKey(key.PublicKey())), nil
}

func newKey() (ssh.Signer, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	return signer, pem.EncodeToMemory(block), err
}

// Program writes a program into dir that is ssh with a configuration of the test's in place of the user's: address
// is the server's, and so are more lines. It returns the program's path.
func (s *Server) Program(dir, address string, more ...string) (string, error) {
	_, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("Host %s\n  HostName 127.0.0.1\n  Port %s\n", address, port)
	for _, line := range more {
		text += "  " + line + "\n"
	}
	config, program := filepath.Join(dir, "ssh_config"), filepath.Join(dir, "test-ssh")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec ssh -F '%s' \"$@\"\n", config)
	return program, os.WriteFile(program, []byte(script), 0o700)
}

// Logins are the users that have logged in.
func (s *Server) Logins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.logins...)
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	_ = s.listener.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns[c] = true
		s.all.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

func (s *Server) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	conn, channels, requests, err := ssh.NewServerConn(c, s.server)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins = append(s.logins, conn.User())
	s.mu.Unlock()
	s.all.Go(func() { ssh.DiscardRequests(requests) })
	for asked := range channels {
		channel, requests, err := asked.Accept()
		if err != nil {
			return
		}
		s.session(channel, requests)
	}
}

// session runs the first command that a session asks for.
func (s *Server) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var exec struct{ Command string }
		if err := ssh.Unmarshal(r.Payload, &exec); err != nil {
			return
		}
		_ = r.Reply(true, nil)
		s.all.Go(func() { ssh.DiscardRequests(requests) })
		code := s.cfg.Answer(exec.Command, channel, channel.Stderr())
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		return
	}
}
