package admin

import (
	"net"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/resp"
)

// replyLimits are the limits of a zdb's replies on one connection: its longest error, its longest
// string, the namespaces that it may list, and everything together.
func replyLimits() resp.ReplyLimits {
	return resp.ReplyLimits{Line: 4 << 10, String: 64 << 10, Elements: 1 << 16, Total: 64 << 20}
}

// guard is a connection to a zdb's admin socket that ends when a reply is out of bounds:
// the client trusts every length that it reads, and allocates it.
type guard struct {
	net.Conn
	replies *resp.Replies
}

func newGuard(conn net.Conn) *guard {
	return &guard{Conn: conn, replies: resp.NewReplies(replyLimits())}
}

// Read fails instead of passing on anything that is out of bounds.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if wrong := g.replies.Check(p[:n]); wrong != nil {
		return 0, errors.Wrap(wrong, "cannot take a reply")
	}
	return n, err
}
