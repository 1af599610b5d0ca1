package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pkg/errors"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// Farms is the table of farms.
type Farms struct {
	read   *sql.DB
	writer *writer
	disk   freeDisk
}

// Create makes a farm and returns it with its number. Exist when the name is taken.
func (s *Farms) Create(ctx context.Context, w Writer, f wire.Farm) (wire.Farm, error) {
	if err := s.disk.check(); err != nil {
		return f, err
	}
	err := s.writer.write(ctx, func(t *tx) error {
		if err := t.claim(w); err != nil {
			return err
		}
		var taken uint64
		err := t.queryRow(`SELECT id FROM farms WHERE name = ?`, f.Name).Scan(&taken)
		if err == nil {
			return node.Errorf(node.Exist, "cannot create farm: name %q is taken by farm %d", f.Name, taken)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := t.roomForFarm(f.Owner); err != nil {
			return err
		}
		res, err := t.exec(`INSERT INTO farms (name, owner, created) VALUES (?, ?, ?)`, f.Name, f.Owner, f.Created.UnixNano())
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		f.ID = uint64(id)
		return err
	})
	return f, err
}

func (t *tx) roomForFarm(owner string) error {
	var all, own int64
	if err := t.queryRow(`SELECT count(*), coalesce(sum(owner = ?), 0) FROM farms`, owner).Scan(&all, &own); err != nil {
		return err
	}
	switch {
	case own >= farms.Each:
		farms.Reached()
		return node.Errorf(node.NoSpace, "cannot create a farm: %s has %d, which is the most", owner, own)
	case all >= farms.Total:
		farms.Reached()
		return node.Errorf(node.NoSpace, "cannot create a farm: there are %d, which is the most", all)
	}
	return nil
}

// Get returns one farm. NotExist when there is none.
func (s *Farms) Get(ctx context.Context, id uint64) (wire.Farm, error) {
	out, err := scanFarm(s.read.QueryRowContext(ctx, `SELECT id, name, owner, created FROM farms WHERE id = ?`, int64(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return wire.Farm{}, node.Errorf(node.NotExist, "cannot find farm %d: there is none of that number", id)
	}
	return out, errors.Wrapf(err, "cannot read farm %d", id)
}

// List returns the farms whose number is greater than after.
func (s *Farms) List(ctx context.Context, after uint64, limit int) ([]wire.Farm, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, name, owner, created FROM farms WHERE id > ? ORDER BY id LIMIT ?`, int64(after), limit)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list farms")
	}
	defer rows.Close()
	out := []wire.Farm{}
	for rows.Next() {
		f, err := scanFarm(rows)
		if err != nil {
			return nil, errors.Wrap(err, "cannot list farms")
		}
		out = append(out, f)
	}
	return out, errors.Wrap(rows.Err(), "cannot list farms")
}

func scanFarm(from scanner) (wire.Farm, error) {
	var f wire.Farm
	var created int64
	err := from.Scan(&f.ID, &f.Name, &f.Owner, &created)
	f.Created = time.Unix(0, created).UTC()
	return f, err
}
