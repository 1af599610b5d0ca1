package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxAnswer is the largest answer that is read whole, in bytes.
const maxAnswer = 4 << 20

// call is one request; what describes it in errors.
type call struct {
	what   string
	method string
	target string
	body   any
	// upgrade asks for a stream of frames.
	upgrade bool
}

// Status asks for the node's state of a workload.
func (c *Conn) Status(ctx context.Context, id string) (Status, error) {
	var out Status
	return out, c.get(ctx, call{what: "read the status of " + id, method: http.MethodGet, target: workloadPath(id, "status")}, &out)
}

// Events reads what has happened to a workload, the oldest first.
func (c *Conn) Events(ctx context.Context, id string) ([]Event, error) {
	var out Events
	err := c.get(ctx, call{what: "read the events of " + id, method: http.MethodGet, target: workloadPath(id, "events")}, &out)
	return out.Events, err
}

// Stats reads a container's use once.
func (c *Conn) Stats(ctx context.Context, id string) (Stats, error) {
	var out Stats
	return out, c.get(ctx, call{what: "read the use of " + id, method: http.MethodGet, target: workloadPath(id, "stats")}, &out)
}

// Version asks for the node's software version.
func (c *Conn) Version(ctx context.Context) (Version, error) {
	var out Version
	return out, c.get(ctx, call{what: "ask for the node's version", method: http.MethodGet, target: PathVersion}, &out)
}

// Delete sends the signed deletion of the workload of that ID straight to the node.
func (c *Conn) Delete(ctx context.Context, id string, d workload.Deletion) (Status, error) {
	var out Status
	return out, c.get(ctx, call{what: "delete " + id, method: http.MethodPost, target: PathDeletions, body: Deletion{ID: id, Deletion: d}}, &out)
}

// WatchStats calls f with a container's use repeatedly until ctx is done, f fails
// or the container is gone.
func (c *Conn) WatchStats(ctx context.Context, id string, f func(Stats) error) error {
	return lines(ctx, c, call{what: "read the use of " + id, method: http.MethodGet, target: workloadPath(id, "stats") + "?watch=true"}, f)
}

// Logs calls f with each line of a workload's output.
func (c *Conn) Logs(ctx context.Context, id string, o LogOptions, f func(LogLine) error) error {
	q := url.Values{}
	if o.Tail >= 0 {
		q.Set("tail", strconv.Itoa(o.Tail))
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	target := workloadPath(id, "logs")
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	return lines(ctx, c, call{what: "read the logs of " + id, method: http.MethodGet, target: target}, f)
}

// Exec runs a command in a container and returns its exit code. The
// connection is of no use afterwards.
func (c *Conn) Exec(ctx context.Context, id string, o ExecOptions, streams ExecIO) (uint32, error) {
	k := call{what: "run a command in " + id, method: http.MethodPost, target: workloadPath(id, "exec"), body: o, upgrade: true}
	resp, err := c.do(ctx, k)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return 0, garbage(k.what, "it doesn't switch to a stream")
	}
	return RunExec(ctx, c.conn, c.reader, c.dialer.Pulse, streams)
}

func workloadPath(id, rest string) string { return PathWorkloads + url.PathEscape(id) + "/" + rest }

// get reads a JSON answer into out.
func (c *Conn) get(ctx context.Context, k call, out any) error {
	resp, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	body, err := c.whole(ctx, k, resp)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return garbage(k.what, "it isn't the JSON that was asked for")
	}
	return nil
}

// do signs and sends a request, once more when the node's clock differs.
func (c *Conn) do(ctx context.Context, k call) (*http.Response, error) {
	resp, err := c.once(ctx, k)
	var refused *explorer.AnswerError
	if errors.As(err, &refused) && refused.Problem.Time != nil {
		// That is safe: the time only guards the node, and the signature holds on
		// this connection alone.
		c.offset = refused.Problem.Time.Sub(c.dialer.Now())
		return c.once(ctx, k)
	}
	return resp, err
}

func (c *Conn) once(ctx context.Context, k call) (*http.Response, error) {
	var body []byte
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return nil, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot %s", k.what))
		}
	}
	r, err := http.NewRequestWithContext(ctx, k.method, "https://"+c.dialer.Node+k.target, bytes.NewReader(body))
	if err != nil {
		return nil, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot %s", k.what))
	}
	r.Header.Set("User-Agent", "croft")
	if k.upgrade {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", Upgrade)
	}
	in := Request{Node: c.dialer.Node, Method: k.method, Target: k.target, Body: body, Time: c.dialer.Now().Add(c.offset), Binding: c.binding}
	in.Sign(c.dialer.User, r.Header)
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	if err := c.conn.SetDeadline(time.Now().Add(c.dialer.Pulse.orDefault().Silence)); err != nil {
		return nil, c.lost(ctx, k.what, err)
	}
	if err := r.Write(c.conn); err != nil {
		return nil, c.lost(ctx, k.what, err)
	}
	resp, err := http.ReadResponse(c.reader, r)
	if err != nil {
		return nil, c.lost(ctx, k.what, err)
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		return nil, c.lost(ctx, k.what, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode/100 == 2 {
		return resp, nil
	}
	body, err = c.whole(ctx, k, resp)
	if err != nil {
		return nil, err
	}
	return nil, explorer.NodeAnswer(k.what, resp.StatusCode, resp.Header, body)
}

// whole reads an answer's body to its end.
func (c *Conn) whole(ctx context.Context, k call, resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	if err := c.conn.SetReadDeadline(time.Now().Add(c.dialer.Pulse.orDefault().Silence)); err != nil {
		return nil, c.lost(ctx, k.what, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.lost(ctx, k.what, err)
	}
	if len(body) > maxAnswer {
		_ = c.conn.Close() // or the rest would be read first
		return nil, garbage(k.what, "it is larger than allowed")
	}
	return body, nil
}

func (c *Conn) lost(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && ctx.Err() == nil {
		return node.Errorf(node.Transient, "cannot %s: the node doesn't answer", what)
	}
	return node.WithKind(node.Transient, errors.Wrapf(err, "cannot %s", what))
}

func garbage(what, why string) error {
	return node.Errorf(node.Transient, "cannot %s: the node's answer isn't one: %s", what, why)
}
