package verify

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxDepth is how deep data may nest for its signature to be looked at: deep
// enough that the user of anything meant gets an answer from validation, and
// shallow enough for the stack.
const maxDepth = 1000

// Authentic says whether r's user asked this node for it, in words that can be
// checked. An error means that nobody can be answered.
func (p Policy) Authentic(r *workload.Reservation) error {
	if _, err := workload.ParseID(r.ID); err != nil {
		return node.WithKind(node.Invalid, err)
	}
	if n := len(r.Data); n > workload.MaxDocument {
		return node.Errorf(node.Invalid, "cannot accept data: it has %d bytes, must have at most %d", n, workload.MaxDocument)
	}
	if deeper(r.Data, maxDepth) {
		return node.Errorf(node.Invalid, "cannot accept data: it nests deeper than %d", maxDepth)
	}
	if !signable(r.Created) {
		return node.Errorf(node.Invalid, "cannot accept created: it is %s, must be between 1678 and 2262", stamp(r.Created))
	}
	if err := workload.Verify(r); err != nil {
		return node.WithKind(node.Invalid, err)
	}
	if r.NodeID != p.NodeID {
		return node.Errorf(node.Refused, "cannot accept node_id: it is %q, must be %q, which is this node", r.NodeID, p.NodeID)
	}
	return nil
}

// Deletion says whether r's deletion is its user's.
func (p Policy) Deletion(r *workload.Reservation) error {
	if r.Deletion != nil && !signable(r.Deletion.Created) {
		return node.Errorf(node.Invalid, "cannot accept deletion.created: it is %s, must be between 1678 and 2262", stamp(r.Deletion.Created))
	}
	return node.WithKind(node.Invalid, workload.VerifyDeletion(r))
}

// signable reports whether t is what its nanoseconds since 1970 say: beyond
// that range two times have the same signed bytes.
func signable(t time.Time) bool { return time.Unix(0, t.UnixNano()).Equal(t) }

// deeper reports whether JSON text nests deeper than most, without reading it as JSON.
func deeper(text []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
