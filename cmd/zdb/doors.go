package main

import (
	"context"
	"net"
	"os"
	"strconv"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/zdb/loop"
)

// Modes of unix sockets: everybody may connect to the clients' socket, as to the TCP port.
const (
	socketMode = 0o666
	adminMode  = 0o600
)

// doors are the listeners.
type doors struct {
	names []string
	unix  []*socket.Listener
}

// open opens all listeners and passes them to the loop.
func (s settings) open(ctx context.Context, l *loop.Loop) (doors, error) {
	var d doors
	for _, u := range []struct {
		path  string
		mode  os.FileMode
		admin bool
	}{{s.admin, adminMode, true}, {s.socket, socketMode, false}} {
		if u.path == "" {
			continue
		}
		listener, err := socket.Listen(u.path, u.mode)
		if err != nil {
			return d, err
		}
		d.unix = append(d.unix, listener)
		d.names = append(d.names, "unix "+u.path)
		if err := give(l, listener.UnixListener, u.admin); err != nil {
			return d, err
		}
	}
	if s.silent {
		return d, nil
	}
	listener, err := listenTCP(ctx, s.host, s.port)
	if err != nil {
		return d, err
	}
	defer listener.Close()
	d.names = append(d.names, "tcp "+listener.Addr().String())
	return d, give(l, listener, false)
}

// listenTCP also serves IPv4 on ::, and listens on 0.0.0.0 where there is no IPv6.
func listenTCP(ctx context.Context, host string, port int) (*net.TCPListener, error) {
	if host == "::" {
		host = ""
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, errors.Wrap(err, "cannot listen")
	}
	return listener.(*net.TCPListener), nil
}

// give makes the loop accept on a listener's socket.
func give(l *loop.Loop, from interface{ File() (*os.File, error) }, admin bool) error {
	f, err := from.File()
	if err != nil {
		return errors.Wrap(err, "cannot take a listener's socket")
	}
	return l.Listen(f, admin)
}

// remove removes the files of unix sockets.
func (d doors) remove(log zerolog.Logger) {
	for _, l := range d.unix {
		if err := l.Close(); err != nil {
			log.Warn().Err(err).Msg("cannot remove a socket")
		}
	}
}
