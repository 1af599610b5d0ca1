package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// Nodes is the table of registered nodes.
type Nodes struct {
	read   *sql.DB
	writer *writer
	disk   freeDisk
	heads  *heads
}

// Head is the node's newest change, read without the disk; false when the node isn't registered.
func (s *Nodes) Head(nodeID string) (uint64, bool) { return s.heads.head(nodeID) }

// Update changes a node by edit.Apply, which gets its present state. With edit.Create, an unknown
// node is made; else NotExist.
func (s *Nodes) Update(ctx context.Context, w Writer, id string, edit Edit) error {
	return s.writer.write(ctx, func(t *tx) error {
		if err := t.claim(w); err != nil {
			return err
		}
		if w.Key == "" && !edit.Granted {
			if err := t.neverSigned(id); err != nil {
				return err
			}
		}
		n := wire.Node{NodeID: id}
		var doc []byte
		err := t.queryRow(`SELECT document FROM nodes WHERE id = ?`, id).Scan(&doc)
		fresh := errors.Is(err, sql.ErrNoRows)
		if fresh && edit.Create {
			if err := s.disk.check(); err != nil {
				return err
			}
		}
		switch {
		case fresh && !edit.Create:
			return errNoNode(id)
		case fresh && s.heads.count() >= int(nodes.Total):
			nodes.Reached()
			return node.Errorf(node.NoSpace, "cannot register node %s: %d are registered, which is the most", id, nodes.Total)
		case err != nil && !fresh:
			return err
		case !fresh:
			if err := json.Unmarshal(doc, &n); err != nil {
				return errors.Wrapf(err, "cannot read node %s", id)
			}
		}
		if err := edit.Apply(&n, fresh); err != nil {
			return err
		}
		return t.putNode(n, edit.Seen, fresh)
	})
}

// Edit is a change of a node.
type Edit struct {
	// Create makes the node when it isn't there.
	Create bool
	// Granted says that a signed document allows the change, so that the
	// write itself needs no signature.
	Granted bool
	// Seen is when the node sent the change; zero when the change isn't the node's own.
	Seen  time.Time
	Apply func(n *wire.Node, fresh bool) error
}

func (t *tx) putNode(n wire.Node, seen time.Time, fresh bool) error {
	doc, err := json.Marshal(n)
	if err != nil {
		return errors.Wrapf(err, "cannot write node %s", n.NodeID)
	}
	if len(doc) > int(nodeDocument.Each) {
		nodeDocument.Reached()
		return node.Errorf(node.Invalid, "cannot keep node %s: its document would have %d bytes, at most %d are allowed", n.NodeID, len(doc), nodeDocument.Each)
	}
	at := int64(0)
	if !seen.IsZero() {
		at = seen.UnixNano()
	}
	if fresh {
		t.node(n.NodeID)
		_, err = t.exec(`INSERT INTO nodes (id, farm, seen, document) VALUES (?, ?, ?, ?)`, n.NodeID, n.FarmID, at, doc)
		return err
	}
	_, err = t.exec(`UPDATE nodes SET farm = ?, seen = max(seen, ?), document = ? WHERE id = ?`, n.FarmID, at, doc, n.NodeID)
	return err
}

// Seen is a node with the time of its last signed or accepted write.
type Seen struct {
	wire.Node
	At  time.Time
	Seq uint64
	// size is the length of its document.
	size int
}

// Get returns one node. NotExist when it isn't registered.
func (s *Nodes) Get(ctx context.Context, id string) (Seen, error) {
	row := s.read.QueryRowContext(ctx, `SELECT seq, seen, document FROM nodes WHERE id = ?`, id)
	out, err := scanNode(row)
	if errors.Is(err, sql.ErrNoRows) {
		return Seen{}, errNoNode(id)
	}
	return out, errors.Wrapf(err, "cannot read node %s", id)
}

// NodeQuery selects nodes, in the order of their first registration.
type NodeQuery struct {
	// After is the Seq of the last one that was returned.
	After uint64
	Limit int
	// Last, when not 0, is the Seq of the last one wanted.
	Last uint64
	// Farm, when not 0, is the farm that they belong to.
	Farm uint64
	// SeenSince, when not zero, leaves out those not heard of since.
	SeenSince time.Time
}

const wantedNodes = ` FROM nodes WHERE seq > ?1 AND (?2 = 0 OR farm = ?2) AND seen >= ?3 AND (?4 = 0 OR seq <= ?4) ORDER BY seq LIMIT ?5`

func (q NodeQuery) args(limit int) []any {
	since := int64(0)
	if !q.SeenSince.IsZero() {
		since = q.SeenSince.UnixNano()
	}
	return []any{q.After, q.Farm, since, q.Last, limit}
}

// Last returns the Seq of the last of q.Limit nodes, 0 when there are fewer.
func (s *Nodes) Last(ctx context.Context, q NodeQuery) (uint64, error) {
	var last uint64
	err := s.read.QueryRowContext(ctx, `SELECT seq`+wantedNodes+` OFFSET ?6`, append(q.args(1), q.Limit-1)...).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return last, errors.Wrap(err, "cannot list nodes")
}

// List returns nodes whose documents have at most most bytes; one always fits. more says that this
// bound cut the list short.
func (s *Nodes) List(ctx context.Context, q NodeQuery, most int) (out []Seen, more bool, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT seq, seen, document`+wantedNodes, q.args(q.Limit)...)
	if err != nil {
		return nil, false, errors.Wrap(err, "cannot list nodes")
	}
	defer rows.Close()
	size := 0
	for rows.Next() {
		n, err := scanNode(rows)
		if err != nil {
			return nil, false, errors.Wrap(err, "cannot list nodes")
		}
		if size += n.size; len(out) > 0 && size > most {
			return out, true, nil
		}
		out = append(out, n)
	}
	return out, false, errors.Wrap(rows.Err(), "cannot list nodes")
}

type scanner interface{ Scan(into ...any) error }

func scanNode(from scanner) (Seen, error) {
	var out Seen
	var at int64
	var doc []byte
	if err := from.Scan(&out.Seq, &at, &doc); err != nil {
		return Seen{}, err
	}
	if at != 0 {
		out.At = time.Unix(0, at)
	}
	out.size = len(doc)
	return out, json.Unmarshal(doc, &out.Node)
}

func errNoNode(id string) error {
	return node.Errorf(node.NotExist, "cannot find node %q: it isn't registered here", short(id))
}

func short(s string) string { return clip.Text(s, 64) }
