package store

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resp"
)

// word is what SELECT is given: nothing that another protocol's server would take for a line of its own.
var word = regexp.MustCompile(`^[!-~]{1,128}$`)

// zdbPort is 0-db's port.
const zdbPort = "9900"

// zdb is a namespace of a 0-db, whose keys are the blocks' IDs. It has one connection, made when it is first needed and
// again after a failure.
type zdb struct {
	dialer  *dial.Dialer
	address string
	silence time.Duration
	// namespace and password are the arguments of SELECT; the password may be empty.
	namespace, password string
	// conn is the client on raw; both are nil without a connection.
	conn redis.Conn
	raw  net.Conn
}

// openZDB reads zdb://[USER[:PASSWORD]@]HOST[:PORT]/NAMESPACE; the user counts for nothing.
func openZDB(c fetch.Config, u *url.URL) (blocks, string) {
	namespace := strings.TrimPrefix(u.Path, "/")
	password, _ := u.User.Password()
	switch {
	case !word.MatchString(namespace) || strings.Contains(namespace, "/"):
		return nil, "its path must be the name of a namespace, 1 to 128 printed ASCII characters"
	case password != "" && !word.MatchString(password):
		return nil, "its password must have at most 128 printed ASCII characters"
	}
	return &zdb{
		dialer: c.Dialer, address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), zdbPort)), silence: c.Patience(),
		namespace: namespace, password: password,
	}, ""
}

// get implements blocks.
func (z *zdb) get(ctx context.Context, id flist.Hash, most int) ([]byte, error) {
	if z.conn == nil {
		if err := z.connect(ctx); err != nil {
			return nil, err
		}
	}
	raw := z.raw
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	out, err := redis.Bytes(z.conn.Do("GET", id[:]))
	if !stop() {
		z.close()
	}
	var refusal redis.Error
	switch {
	case err == nil && len(out) > most:
		return nil, node.Errorf(node.Refused, "it sends %d bytes, the block can have at most %d", len(out), most)
	case err == nil:
		return out, nil
	case errors.Is(err, redis.ErrNil):
		return nil, errMissing
	case errors.As(err, &refusal):
		// It may be locked, or be read anew, for a while.
		return nil, saidBy(node.Transient, refusal)
	}
	z.close()
	return nil, node.Errorf(node.Transient, "the connection broke: %w", err)
}

// mostText is how much of a zdb's error is shown, in bytes.
const mostText = 200

// saidBy is an error that a server answers.
func saidBy(kind node.Kind, said redis.Error) error {
	return node.Errorf(kind, "it says %q", clip.Text(string(said), mostText))
}

// connect connects, and selects the namespace.
func (z *zdb) connect(ctx context.Context) error {
	raw, err := z.dialer.DialContext(ctx, "tcp", z.address)
	if err != nil {
		return err
	}
	// The client trusts every length that it reads, and allocates it.
	replies := resp.NewReplies(resp.ReplyLimits{Line: 4 << 10, String: flist.MostStored(flist.BlockSize), Elements: 1, Total: math.MaxInt})
	z.raw, z.conn = raw, redis.NewConn(&watched{Conn: raw, silence: z.silence, replies: replies}, 0, 0)
	arguments := []any{z.namespace}
	if z.password != "" {
		arguments = append(arguments, z.password)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	_, err = z.conn.Do("SELECT", arguments...)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return nil
	}
	z.close()
	var refusal redis.Error
	if errors.As(err, &refusal) {
		return saidBy(node.Refused, refusal)
	}
	return node.Errorf(node.Transient, "the connection broke: %w", err)
}

// close implements blocks.
func (z *zdb) close() {
	if z.conn != nil {
		_ = z.conn.Close()
		z.conn, z.raw = nil, nil
	}
}

// watched is a connection that ends when the other side says nothing for too long, or what no 0-db says.
type watched struct {
	net.Conn
	silence time.Duration
	replies *resp.Replies
}

// Read implements net.Conn.
func (w *watched) Read(p []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(p)
	if wrong := w.replies.Check(p[:n]); wrong != nil {
		return 0, errors.Wrap(wrong, "cannot take a reply")
	}
	return n, err
}

// Write implements net.Conn.
func (w *watched) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}
