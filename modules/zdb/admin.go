package zdb

import (
	"context"
	"path/filepath"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// adminSocket is where a zdb takes commands that only its node may give.
	adminSocket = "admin.sock"
	// commandTime is how long a zdb may take for one command, adminTime for all of
	// a call, lookTime for saying how it is.
	commandTime = 5 * time.Second
	adminTime   = 15 * time.Second
	lookTime    = 3 * time.Second
)

// admin is a connection to a zdb's admin socket. Each call has its own: there is
// nothing to keep alive, and none waits behind another.
type admin struct{ conn redis.Conn }

// ask connects to the admin socket of a zdb and lets do use it until ctx is done.
func ask(ctx context.Context, data string, do func(a admin) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTime)
	defer cancel()
	conn, err := socket.Dial(ctx, filepath.Join(data, adminSocket))
	if err != nil {
		return node.Errorf(node.Transient, "it doesn't answer: %w", reason(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	a := admin{redis.NewConn(newGuard(conn), commandTime, commandTime)}
	defer a.conn.Close()
	return do(a)
}

// do runs one command.
func (a admin) do(command string, arguments ...any) (any, error) {
	reply, err := a.conn.Do(command, arguments...)
	return reply, classify(err)
}

// command is one with its arguments. secret is the last of them, which is shown
// to nobody; empty for none.
type command struct {
	name      string
	arguments []string
	secret    string
}

func newCommand(name string, arguments ...string) command {
	return command{name: name, arguments: arguments}
}

// plain are all arguments as the client takes them.
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

// run sends commands at once, so that a zdb runs them without any other between
// them, and returns what came of each.
func (a admin) run(commands []command) []error {
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
