package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"time"

	"github.com/pkg/errors"
)

// maxLine is the longest line of a body of LinesType, in bytes.
const maxLine = 1 << 20

// lines calls f with each value of a body of LinesType. Its errors are the node's, f's,
// or those of a lost connection.
func lines[T any](ctx context.Context, c *Conn, k call, f func(T) error) error {
	resp, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The body of a stream has no end: the rest isn't waited for.
	defer c.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != LinesType {
		return garbage(k.what, "it isn't a stream of lines")
	}
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for {
		if err := c.conn.SetReadDeadline(time.Now().Add(c.dialer.Pulse.orDefault().Silence)); err != nil {
			return c.lost(ctx, k.what, err)
		}
		if !scanner.Scan() {
			break
		}
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := value(line, k.what, f); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return garbage(k.what, "a line is longer than allowed")
		}
		return c.lost(ctx, k.what, err)
	}
	return nil
}

// value hands a line to f, unless it is the node's error.
func value[T any](line []byte, what string, f func(T) error) error {
	var t Trailer
	if err := json.Unmarshal(line, &t); err == nil && t.Kind != "" && t.Error != "" {
		return t.err()
	}
	var v T
	if err := json.Unmarshal(line, &v); err != nil {
		return garbage(what, "a line isn't the JSON that was asked for")
	}
	return f(v)
}
