package flisttest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"database/sql"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/pkg/errors"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/croft-edge/croft/pkg/flist"
)

// List is what a flist describes.
type List struct {
	Files  []File
	Tags   map[string]string
	Routes []flist.Route
	// Statements change the database at last: one that lies.
	Statements []string
}

// File is a file, a folder, a link or a special file of a flist.
type File struct {
	// Path is the path from the root, without a slash before it. Folders above that aren't among the files are made.
	Path string
	// Mode is the st_mode; 0 is a regular file that all may read.
	Mode     uint32
	UID, GID uint32
	// Content is that of a regular file, Target that of a symbolic link.
	Content, Target string
}

// Made is a flist with its blocks.
type Made struct {
	// FL is the database.
	FL []byte
	// Blocks are the stored bytes of the blocks.
	Blocks map[flist.Hash][]byte
}

const schema = `
CREATE TABLE inode (ino INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER, name VARCHAR(255), size INTEGER, uid INTEGER, gid INTEGER, mode INTEGER, rdev INTEGER, ctime INTEGER, mtime INTEGER);
CREATE INDEX parents ON inode (parent);
CREATE INDEX names ON inode (name);
CREATE TABLE extra (ino INTEGER PRIMARY KEY, data VARCHAR(4096));
CREATE TABLE block (ino INTEGER, id VARCHAR(32), key VARCHAR(32));
CREATE INDEX block_ino ON block (ino);
CREATE TABLE tag (key VARCHAR(10) PRIMARY KEY, value VARCHAR(255));
CREATE TABLE route (start integer, end integer, url VARCHAR(2048));
INSERT INTO inode VALUES (1, 0, '/', 4096, 0, 0, 16877, 0, 1580000000, 1580000000);
`

// Seal makes a block of some content: its ID and key, and what a store has.
func Seal(plain []byte) (flist.Block, []byte, error) {
	b := flist.Block{Key: blake2b.Sum256(plain)}
	c, err := aes.NewCipher(b.Key[:])
	if err != nil {
		return b, nil, err
	}
	seal, err := cipher.NewGCM(c)
	if err != nil {
		return b, nil, err
	}
	stored := seal.Seal(nil, b.Key[:seal.NonceSize()], snappy.Encode(nil, plain), nil)
	b.ID = blake2b.Sum256(stored)
	return b, stored, nil
}

// Make makes the flist.
func (l List) Make() (Made, error) {
	out := Made{Blocks: map[flist.Hash][]byte{}}
	dir, err := os.MkdirTemp("", "croft-flist-")
	if err != nil {
		return out, errors.Wrap(err, "cannot make a flist")
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "list.fl")
	if err := l.write(name, out.Blocks); err != nil {
		return out, errors.Wrap(err, "cannot make a flist")
	}
	out.FL, err = os.ReadFile(name)
	return out, errors.Wrap(err, "cannot make a flist")
}

func (l List) write(name string, blocks map[flist.Hash][]byte) (err error) {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	for _, setting := range []string{"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF"} {
		if _, err := db.ExecContext(ctx, setting); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	w := writer{ctx: ctx, tx: tx, folders: map[string]int64{".": 1}, blocks: blocks}
	w.do(schema)
	for _, f := range l.Files {
		w.file(f)
	}
	for key, value := range l.Tags {
		w.do("INSERT INTO tag VALUES (?, ?)", key, value)
	}
	for _, r := range l.Routes {
		w.do("INSERT INTO route VALUES (?, ?, ?)", r.First, r.Last, r.URL)
	}
	for _, s := range l.Statements {
		w.do(s)
	}
	if w.err != nil {
		return w.err
	}
	return tx.Commit()
}

// writer writes rows until one fails.
type writer struct {
	ctx     context.Context //nolint:containedctx // of one call
	tx      *sql.Tx
	folders map[string]int64
	blocks  map[flist.Hash][]byte
	err     error
}

func (w *writer) do(statement string, args ...any) (id int64) {
	if w.err != nil {
		return 0
	}
	done, err := w.tx.ExecContext(w.ctx, statement, args...)
	if err != nil {
		w.err = errors.Wrap(err, statement)
		return 0
	}
	id, w.err = done.LastInsertId()
	return id
}

func (w *writer) file(f File) int64 {
	f.Path = strings.TrimPrefix(path.Clean("/"+f.Path), "/")
	parent, known := w.folders[path.Dir(f.Path)]
	if !known {
		parent = w.file(File{Path: path.Dir(f.Path), Mode: unix.S_IFDIR | 0o755})
	}
	if f.Mode == 0 {
		f.Mode = unix.S_IFREG | 0o644
	}
	size := len(f.Content) + len(f.Target)
	if f.Mode&unix.S_IFMT == unix.S_IFDIR {
		size = 4096
	}
	ino := w.do("INSERT INTO inode (parent, name, size, uid, gid, mode, rdev, ctime, mtime) VALUES (?, ?, ?, ?, ?, ?, 0, 1580000000, 1580000000)",
		parent, path.Base(f.Path), size, f.UID, f.GID, f.Mode)
	switch f.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.folders[f.Path] = ino
	case unix.S_IFLNK:
		w.do("INSERT INTO extra VALUES (?, ?)", ino, []byte(f.Target))
	}
	for part := range slices.Chunk([]byte(f.Content), flist.BlockSize) {
		b, stored, err := Seal(part)
		if err != nil && w.err == nil {
			w.err = err
		}
		w.blocks[b.ID] = stored
		w.do("INSERT INTO block VALUES (?, ?, ?)", ino, b.ID[:], b.Key[:])
	}
	return ino
}
