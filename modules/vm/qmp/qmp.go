// Package qmp is a client of QEMU's machine protocol: one JSON document a line, over a unix socket. It trusts nothing that
// QEMU says: a guest may have taken it over.
//
// A Client sends one command at a time, and drops events. QEMU takes one client at a time, and the next one when that has
// closed its connection.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// longestLine bounds a document of QEMU, in bytes; mostLines the events before an answer.
	longestLine = 64 << 10
	mostLines   = 1000
	// longestText bounds QEMU's texts in errors, in bytes.
	longestText = 300
)

// Client is a connection to a QEMU.
type Client struct {
	conn  net.Conn
	lines *bufio.Scanner
}

// message is a document of QEMU: a greeting, an answer, an error or an event.
type message struct {
	Greeting json.RawMessage `json:"QMP"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Class string `json:"class"`
		Text  string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
}

// Dial connects to the QEMU that listens at a path. Transient when none answers until ctx is done.
func Dial(ctx context.Context, path string) (*Client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, node.Errorf(node.Transient, "cannot connect to QEMU: %w", err)
	}
	c := &Client{conn: conn, lines: bufio.NewScanner(conn)}
	c.lines.Buffer(nil, longestLine)
	defer c.until(ctx)()
	greeting, err := c.next()
	if err == nil && greeting.Greeting == nil {
		err = errors.New("it doesn't begin with a greeting")
	}
	if err == nil {
		err = c.call("qmp_capabilities", nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, node.Errorf(node.Transient, "cannot speak to QEMU: %w", err)
	}
	return c, nil
}

// Close ends the connection; QEMU goes on.
func (c *Client) Close() { _ = c.conn.Close() }

// Status is the state of the guest's processors, such as "running", "paused", "shutdown" or "io-error".
func (c *Client) Status(ctx context.Context) (string, error) {
	defer c.until(ctx)()
	var answer struct {
		Status string `json:"status"`
	}
	err := c.call("query-status", &answer)
	return clip.Line(answer.Status, longestText), err
}

// PowerDown presses the guest's power button.
func (c *Client) PowerDown(ctx context.Context) error {
	defer c.until(ctx)()
	return c.call("system_powerdown", nil)
}

// Resume lets a paused guest go on, such as one whose disk had failed.
func (c *Client) Resume(ctx context.Context) error {
	defer c.until(ctx)()
	return c.call("cont", nil)
}

// until bounds what follows by ctx, and returns how to end that.
func (c *Client) until(ctx context.Context) (done func()) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = c.conn.SetDeadline(time.Time{})
		}
	}
}

// call sends a command without arguments, and waits for its answer.
func (c *Client) call(command string, answer any) error {
	raw, err := json.Marshal(map[string]string{"execute": command})
	if err != nil {
		return errors.Wrap(err, "cannot encode a command")
	}
	if _, err := c.conn.Write(append(raw, '\n')); err != nil {
		return node.Errorf(node.Transient, "cannot send %s to QEMU: %w", command, err)
	}
	for range mostLines {
		m, err := c.next()
		switch {
		case err != nil:
			return node.Errorf(node.Transient, "cannot read QEMU's answer to %s: %w", command, err)
		case m.Error != nil:
			return node.Errorf(node.Busy, "QEMU refuses %s: %s", command, clip.Line(m.Error.Text, longestText))
		case m.Return == nil:
			continue
		case answer == nil:
			return nil
		}
		if err := json.Unmarshal(m.Return, answer); err != nil {
			return node.Errorf(node.Transient, "cannot read QEMU's answer to %s: %w", command, err)
		}
		return nil
	}
	return node.Errorf(node.Transient, "cannot read QEMU's answer to %s: %d other documents came first", command, mostLines)
}

func (c *Client) next() (message, error) {
	var m message
	if !c.lines.Scan() {
		if err := c.lines.Err(); err != nil {
			return m, err
		}
		return m, errors.New("QEMU has closed the connection")
	}
	return m, errors.Wrap(json.Unmarshal(c.lines.Bytes(), &m), "QEMU's document is no JSON")
}
