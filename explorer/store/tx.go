package store

import (
	"context"
	"database/sql"
)

// tx is one write's view: the open transaction, and the numbers that it may assign.
type tx struct {
	w     *writer
	next  uint64
	heads map[string]uint64
	known func(nodeID string) (uint64, bool)
}

func (t *tx) exec(text string, args ...any) (sql.Result, error) {
	return t.w.exec(context.Background(), text, args...)
}

func (t *tx) queryRow(text string, args ...any) row {
	return t.w.queryRow(context.Background(), text, args...)
}

func (t *tx) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	st, err := t.w.statement(ctx, text) //nolint:sqlclosecheck // the writer keeps it and closes it at its end
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// number assigns the next reservation number.
func (t *tx) number() uint64 {
	n := t.next
	t.next++
	return n
}

// change assigns the node's next change number.
func (t *tx) change(nodeID string) uint64 {
	head, ok := t.heads[nodeID]
	if !ok {
		head, _ = t.known(nodeID)
	}
	t.heads[nodeID] = head + 1
	return head + 1
}

// node registers a new node's head.
func (t *tx) node(nodeID string) { t.heads[nodeID] = 0 }
