package debug

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// connection is a connection to a stream's redis server.
type connection struct {
	redis.Conn
	// forget cancels the closing of the connection with its context.
	forget func() bool
}

// connect dials by the rules for addresses that tenants name. The end of ctx
// closes the connection, which interrupts any read or write.
func connect(ctx context.Context, c Config, address string) (*connection, error) {
	out := &connection{}
	conn, err := redis.DialContext(ctx, "tcp", address,
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := c.Dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &plainReplies{Conn: raw, timeout: c.Timeout, fresh: true}, nil
		}),
		redis.DialReadTimeout(c.Timeout), redis.DialWriteTimeout(c.Timeout))
	if err != nil {
		return nil, err
	}
	out.Conn = conn
	out.forget = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return out, nil
}

func (c *connection) close() {
	c.forget()
	_ = c.Conn.Close()
}

// ping checks that a redis server answers commands.
func (c *connection) ping() error {
	_, err := c.Do("PING")
	return errors.Wrap(err, "cannot ping the redis server")
}

// publish sends texts and returns how many of them, from the first on, the
// server has acknowledged. None is sent twice: the fate of an unacknowledged one
// is unknown.
func (c *connection) publish(channel string, texts []string) (taken int, err error) {
	for _, text := range texts {
		if err := c.Send("PUBLISH", channel, text); err != nil {
			return 0, errors.Wrap(err, "cannot publish")
		}
	}
	if err := c.Flush(); err != nil {
		return 0, errors.Wrap(err, "cannot publish")
	}
	for range texts {
		if _, err := redis.Int64(c.Receive()); err != nil {
			return taken, errors.Wrap(err, "cannot publish")
		}
		taken++
	}
	return taken, nil
}

// droppedLine is the notice in place of n missing lines.
func droppedLine(n uint64, at time.Time) string {
	text := fmt.Sprintf("croft: %d lines were dropped", n)
	raw, err := json.Marshal(struct {
		Level   string `json:"level"`
		Part    string `json:"part"`
		Dropped uint64 `json:"dropped"`
		Time    string `json:"time"`
		Message string `json:"message"`
	}{"warn", "debug", n, at.Format(time.RFC3339), text})
	if err != nil {
		return text
	}
	return string(raw)
}

// maxReply is the largest reply accepted, in bytes.
const maxReply = 512

// plainReplies accepts only the kinds of replies to PING and PUBLISH: a simple string,
// an integer or an error, in one short line. The server is a tenant's, and the library
// would allocate memory for any array or bulk string that it announces.
type plainReplies struct {
	net.Conn
	timeout time.Duration
	// fresh is whether the next byte begins a reply, long how many of its bytes were read.
	fresh bool
	long  int
}

// Read implements io.Reader.
func (c *plainReplies) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for _, b := range p[:n] {
		if c.fresh && b != '+' && b != '-' && b != ':' {
			return 0, node.Errorf(node.Invalid, "cannot read the answer: it isn't a redis server's to PING or PUBLISH")
		}
		c.fresh = b == '\n'
		c.long++
		if c.fresh {
			c.long = 0
		}
		if c.long > maxReply {
			return 0, node.Errorf(node.Invalid, "cannot read the answer: it is longer than %d bytes", maxReply)
		}
	}
	return n, err
}

// Write implements io.Writer. It sets a deadline because the library sets none for
// data that doesn't fit into its buffer.
func (c *plainReplies) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
