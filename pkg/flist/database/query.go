package database

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/pkg/errors"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
	"modernc.org/sqlite/vfs"
)

// table is a table of a flist: its columns in the order of the message of a row, each with the types that SQLite may have
// for its values.
type table struct {
	name    string
	kind    byte
	columns []column
}

type column struct {
	name  string
	types string
}

const (
	integer = "integer"
	text    = "text"
	blob    = "blob"
	either  = "text or blob"
)

// tables are those that are read, in this order.
func tables() []table {
	return []table{
		{"inode", kindInode, []column{{"ino", integer}, {"parent", integer}, {"name", text}, {"size", integer}, {"uid", integer}, {"gid", integer}, {"mode", integer}}},
		{"extra", kindExtra, []column{{"ino", integer}, {"data", either}}},
		{"block", kindBlock, []column{{"ino", integer}, {"id", blob}, {"key", blob}}},
		{"tag", kindTag, []column{{"key", text}, {"value", text}}},
		{"route", kindRoute, []column{{"start", integer}, {"end", integer}, {"url", text}}},
	}
}

// errWrong is the cause of errors that are the database's fault.
var errWrong = errors.New("its database can't be read")

func wrong(format string, args ...any) error {
	return errors.WithMessage(errWrong, fmt.Sprintf(format, args...))
}

// one is a file system of one file.
type one struct {
	file *os.File
	size int64
}

// name is that of the file in it.
const name = "flist"

// Open implements fs.FS.
func (o one) Open(path string) (fs.File, error) {
	if path != name {
		return nil, fs.ErrNotExist
	}
	return view{io.NewSectionReader(o.file, 0, o.size), o.file}, nil
}

// view is the file. SQLite reads it in any order, and asks for its size.
type view struct {
	*io.SectionReader
	file *os.File
}

// Stat implements fs.File.
func (v view) Stat() (fs.FileInfo, error) { return v.file.Stat() }

// Close implements fs.File. The file stays open.
func (v view) Close() error { return nil }

// send writes the rows of the database in a file. Errors of errWrong are the database's fault.
func send(ctx context.Context, file *os.File, w *bufio.Writer) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	system, registered, err := vfs.New(one{file, info.Size()})
	if err != nil {
		return err
	}
	defer func() { _ = registered.Close() }()
	// Immutable files are read without locks and journals. What the schema defines may call harmless functions only.
	q := url.Values{
		"vfs": {system}, "mode": {"ro"}, "immutable": {"1"}, "_defensive": {"1"},
		"_pragma": {"trusted_schema(0)", "cell_size_check(1)", "mmap_size(0)", "temp_store(2)", "query_only(1)", "cache_size(-4000)"},
	}
	db, err := sql.Open("sqlite", "file:"+name+"?"+q.Encode())
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return wrong("%v", err)
	}
	defer conn.Close()
	if _, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, 4*mostField); err != nil {
		return err
	}
	for _, t := range tables() {
		if err := t.check(ctx, conn); err != nil {
			return err
		}
		if err := t.send(ctx, conn, w); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what isn't a plain table: a view, a virtual one, one with computed columns.
func (t table) check(ctx context.Context, conn *sql.Conn) error {
	var kind string
	var page int64
	err := conn.QueryRowContext(ctx, "SELECT type, rootpage FROM main.sqlite_schema WHERE name = ? AND type <> 'index'", t.name).Scan(&kind, &page)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wrong("it has no table %s", t.name)
	case err != nil:
		return wrong("%v", err)
	case kind != "table" || page <= 0:
		return wrong("%s must be a table, and neither a view nor a virtual one", t.name)
	}
	var computed int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 0", t.name).Scan(&computed); err != nil {
		return wrong("%v", err)
	}
	if computed > 0 {
		return wrong("the table %s has computed columns", t.name)
	}
	return nil
}

// send writes the rows of a table, in their order.
func (t table) send(ctx context.Context, conn *sql.Conn, w *bufio.Writer) error {
	columns := make([]string, len(t.columns))
	values, into := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i, c := range t.columns {
		// With the sign a value has the type that is stored, whatever the table declares; a name in quotes would be a text
		// where there is no such column.
		columns[i], into[i] = "+["+c.name+"]", &values[i]
	}
	rows, err := conn.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM main."+t.name+" NOT INDEXED ORDER BY rowid")
	if err != nil {
		return wrong("%v", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return wrong("%v", err)
		}
		row, err := t.row(values)
		if err != nil {
			return err
		}
		if err := write(w, t.kind, row...); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return wrong("the table %s can't be read: %v", t.name, err)
	}
	return nil
}

// row is the message of a row.
func (t table) row(values []any) ([]field, error) {
	out := make([]field, len(values))
	for i, c := range t.columns {
		is := "null"
		switch v := values[i].(type) {
		case int64:
			is, out[i].number = integer, v
		case float64:
			is = "real"
		case string:
			is, out[i].bytes = text, []byte(v)
		case []byte:
			is, out[i].bytes = blob, v
		}
		if is != c.types && (c.types != either || is != text && is != blob) {
			return nil, wrong("the column %s of the table %s has a value of type %s, must be %s", c.name, t.name, is, c.types)
		}
		if len(out[i].bytes) > mostField {
			return nil, wrong("the column %s of the table %s has a value of %d bytes, at most %d are allowed", c.name, t.name, len(out[i].bytes), mostField)
		}
	}
	return out, nil
}
