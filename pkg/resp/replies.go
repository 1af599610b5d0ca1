package resp

import (
	"strconv"

	"github.com/pkg/errors"
)

// ReplyLimits are the limits of the replies on a connection.
type ReplyLimits struct {
	// Line is the most bytes of a reply's first line, String those of a bulk string.
	Line, String int
	// Elements is the most elements of an array. An array in an array is refused.
	Elements int
	// Total is the most bytes of all replies.
	Total int
}

// Replies checks the replies that a client is about to read, in pieces of any size: a client
// trusts every length that it reads, and allocates it.
type Replies struct {
	limits ReplyLimits
	head   []byte
	// skip is the rest of a string with its end, elements the rest of an array, total the
	// bytes so far.
	skip, elements, total int
}

// NewReplies makes a checker at the beginning of a reply.
func NewReplies(l ReplyLimits) *Replies { return &Replies{limits: l} }

// Check takes the next bytes. After an error the checker is of no use.
func (r *Replies) Check(p []byte) error {
	if r.total += len(p); r.total > r.limits.Total {
		return errors.Errorf("there are more than %d bytes", r.limits.Total)
	}
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(p))
			r.skip -= n
			p = p[n:]
			continue
		}
		r.head = append(r.head, p[0])
		p = p[1:]
		if len(r.head) > r.limits.Line {
			return errors.Errorf("its first line is longer than %d bytes", r.limits.Line)
		}
		if r.head[len(r.head)-1] != '\n' {
			continue
		}
		if err := r.begin(string(r.head)); err != nil {
			return err
		}
		r.head = r.head[:0]
	}
	return nil
}

// begin takes the first line of a reply.
func (r *Replies) begin(head string) error {
	if len(head) < len("$0\r\n") && head != "+\r\n" && head != "-\r\n" || head[len(head)-2] != '\r' {
		return errors.Errorf("its first line is %.80q", head)
	}
	var err error
	within := r.elements > 0
	switch head[0] {
	case '+', '-', ':':
	case '$':
		if r.skip, err = replySize(head, r.limits.String); err == nil {
			r.skip = max(r.skip+2, 0)
			if head == "$-1\r\n" {
				r.skip = 0
			}
		}
	case '*':
		if within {
			return errors.New("there is an array in an array")
		}
		r.elements, err = replySize(head, r.limits.Elements)
		r.elements = max(r.elements, 0)
	default:
		err = errors.Errorf("its first line is %.80q", head)
	}
	if within {
		r.elements--
	}
	return err
}

// replySize is the length in a reply's first line; -1 is null.
func replySize(head string, most int) (int, error) {
	n, err := strconv.Atoi(head[1 : len(head)-2])
	if err != nil || n < -1 || n > most {
		return 0, errors.Errorf("its length is %.80q, must be at most %d", head, most)
	}
	return n, nil
}
