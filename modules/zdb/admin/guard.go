package admin

import (
	"net"
	"strconv"

	"github.com/pkg/errors"
)

const (
	// maxHead is the maximum length of a reply's first line, in bytes, maxBulk that of a
	// string, maxReplies that of all replies on a connection.
	maxHead    = 4 << 10
	maxBulk    = 64 << 10
	maxReplies = 64 << 20
	// maxElements is how many namespaces a zdb may list.
	maxElements = 1 << 16
)

// guard is a connection to a zdb's admin socket that ends when a reply is out of bounds:
// the client trusts every length that it reads, and allocates it.
type guard struct {
	net.Conn
	head []byte
	// skip is the rest of a string with its end, elements the rest of an array, room the
	// bytes that may still come.
	skip, elements, room int
}

func newGuard(conn net.Conn) *guard { return &guard{Conn: conn, room: maxReplies} }

// Read fails instead of passing on anything that is out of bounds.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if wrong := g.check(p[:n]); wrong != nil {
		return 0, errors.Wrap(wrong, "cannot take a reply")
	}
	return n, err
}

func (g *guard) check(p []byte) error {
	if g.room -= len(p); g.room < 0 {
		return errors.Errorf("there are more than %d bytes", maxReplies)
	}
	for len(p) > 0 {
		if g.skip > 0 {
			n := min(g.skip, len(p))
			g.skip -= n
			p = p[n:]
			continue
		}
		g.head = append(g.head, p[0])
		p = p[1:]
		if len(g.head) > maxHead {
			return errors.Errorf("its first line is longer than %d bytes", maxHead)
		}
		if g.head[len(g.head)-1] != '\n' {
			continue
		}
		if err := g.begin(string(g.head)); err != nil {
			return err
		}
		g.head = g.head[:0]
	}
	return nil
}

// begin takes the first line of a reply.
func (g *guard) begin(head string) error {
	if len(head) < len("$0\r\n") && head != "+\r\n" && head != "-\r\n" || head[len(head)-2] != '\r' {
		return errors.Errorf("its first line is %.80q", head)
	}
	size := func(most int) (int, error) {
		n, err := strconv.Atoi(head[1 : len(head)-2])
		if err != nil || n < -1 || n > most {
			return 0, errors.Errorf("its length is %.80q, must be at most %d", head, most)
		}
		return n, nil
	}
	var err error
	within := g.elements > 0
	switch head[0] {
	case '+', '-', ':':
	case '$':
		if g.skip, err = size(maxBulk); err == nil {
			g.skip = max(g.skip+2, 0)
			if head == "$-1\r\n" {
				g.skip = 0
			}
		}
	case '*':
		if within {
			return errors.New("there is an array in an array")
		}
		g.elements, err = size(maxElements)
		g.elements = max(g.elements, 0)
	default:
		err = errors.Errorf("its first line is %.80q", head)
	}
	if within {
		g.elements--
	}
	return err
}
