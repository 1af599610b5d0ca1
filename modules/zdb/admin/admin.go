// Package admin speaks to a zdb over its admin socket: it makes, changes, lists and removes
// namespaces, and labels each with the hash of its owner. It owns the extended attributes
// trusted.croft.namespace.NAME of a zdb's volume. A zdb isn't trusted: each call has a
// deadline, and replies are bounded before they are read.
package admin

import (
	"context"
	"path/filepath"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// Socket is the name of the admin socket in the folder of a zdb's data.
	Socket = "admin.sock"
	// commandTime is the deadline of one command, callTime that of a call of Ask.
	commandTime = 5 * time.Second
	callTime    = 15 * time.Second
)

// Client is a connection to a zdb's admin socket. Each call has its own: there is
// nothing to keep alive, and none waits behind another.
type Client struct{ conn redis.Conn }

// Ask connects to the admin socket of a zdb and lets do use it until ctx is done.
func Ask(ctx context.Context, data string, do func(a Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := socket.Dial(ctx, filepath.Join(data, Socket))
	if err != nil {
		return node.Errorf(node.Transient, "it doesn't answer: %w", socket.Reason(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	a := Client{redis.NewConn(newGuard(conn), commandTime, commandTime)}
	defer a.conn.Close()
	return do(a)
}

// do runs one command.
func (a Client) do(command string, arguments ...any) (any, error) {
	reply, err := a.conn.Do(command, arguments...)
	return reply, classify(err)
}

// command is a command with its arguments. secret is the last argument, which no error
// shows; empty for none.
type command struct {
	name      string
	arguments []string
	secret    string
}

func newCommand(name string, arguments ...string) command {
	return command{name: name, arguments: arguments}
}

// plain returns all arguments as the client takes them.
func (c command) plain() []any {
	var out []any
	for _, a := range c.arguments {
		out = append(out, a)
	}
	if c.secret != "" {
		out = append(out, c.secret)
	}
	return out
}

// run sends commands at once, so that a zdb runs them without others in between, and
// returns the error of each.
func (a Client) run(commands []command) []error {
	out := make([]error, len(commands))
	for _, c := range commands {
		if err := a.conn.Send(c.name, c.plain()...); err != nil {
			return failAll(out, err)
		}
	}
	if err := a.conn.Flush(); err != nil {
		return failAll(out, err)
	}
	for i, c := range commands {
		_, err := a.conn.Receive()
		out[i] = classify(err)
		if kind := node.KindOf(out[i]); out[i] != nil && kind != node.Transient && c.secret != "" {
			out[i] = node.Errorf(kind, "it refuses the password")
		}
	}
	return out
}

func failAll(out []error, err error) []error {
	for i := range out {
		out[i] = classify(err)
	}
	return out
}
