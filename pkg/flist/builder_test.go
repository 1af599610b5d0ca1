package flist_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	folder  = 0o040755
	regular = 0o100644
	symlink = 0o120777
)

var hash = make([]byte, 32)

// root is the row of the root.
func root() flist.InodeRow { return flist.InodeRow{Ino: 1, Name: "/", Size: 4096, Mode: folder} }

// file is the row of an empty file.
func file(ino, parent int64, name string) flist.InodeRow {
	return flist.InodeRow{Ino: ino, Parent: parent, Name: name, Mode: regular}
}

// with is a row with another value.
func with(r flist.InodeRow, change func(r *flist.InodeRow)) flist.InodeRow {
	change(&r)
	return r
}

// rows are the rows of a database.
type rows func(b *flist.Builder) error

// inodes are rows of the table inode, with the root's before them.
func inodes(all ...flist.InodeRow) rows {
	return func(b *flist.Builder) error {
		for _, r := range append([]flist.InodeRow{root()}, all...) {
			if err := b.Inode(r); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r rows) and(more rows) rows {
	return func(b *flist.Builder) error {
		if err := r(b); err != nil {
			return err
		}
		return more(b)
	}
}

func block(ino int64) rows { return func(b *flist.Builder) error { return b.Block(ino, hash, hash) } }

func extra(ino int64, target string) rows {
	return func(b *flist.Builder) error { return b.Extra(ino, []byte(target)) }
}

func route(start, end int64, url string) rows {
	return func(b *flist.Builder) error { return b.Route(start, end, url) }
}

func tag(key, value string) rows { return func(b *flist.Builder) error { return b.Tag(key, value) } }

func repeat(n int, what func(i int) rows) rows {
	return func(b *flist.Builder) error {
		for i := range n {
			if err := what(i)(b); err != nil {
				return err
			}
		}
		return nil
	}
}

func build(r rows) (*flist.Flist, error) {
	b := flist.NewBuilder()
	if err := r(b); err != nil {
		return nil, err
	}
	return b.Flist()
}

// A child may come before its parent; entries are sorted; types and bits are kept.
func TestIndex(t *testing.T) {
	list, err := build(inodes(
		file(7, 5, "z"), with(file(6, 5, "a"), func(r *flist.InodeRow) { r.Mode, r.UID, r.GID, r.Size = 0o104755, 1, 2, 1 }),
		with(file(5, 1, "dir"), func(r *flist.InodeRow) { r.Mode = 0o041777 }), with(file(3, 1, "link"), func(r *flist.InodeRow) { r.Mode = symlink }),
		with(file(8, 1, "null"), func(r *flist.InodeRow) { r.Mode = 0o020666 }),
	).and(block(6)).and(extra(3, "dir/a")).and(tag("version", "1")).and(route(0, 127, "http://a")).and(route(127, 255, "http://b")))
	must(t, err)
	dir := list.Root.Find("dir")
	if dir == nil || dir.Mode != fs.ModeDir|fs.ModeSticky|0o777 || len(dir.Entries) != 2 || dir.Entries[0].Name != "a" || dir.Entries[1].Name != "z" {
		t.Fatalf("dir is %+v", dir)
	}
	if a := dir.Find("a"); a.Mode != fs.ModeSetuid|0o755 || a.UID != 1 || a.GID != 2 || len(a.Blocks) != 1 || a.Plain(0) != 1 {
		t.Errorf("a is %+v", a)
	}
	if l := list.Root.Find("link"); l.Target != "dir/a" || l.Mode.Type() != fs.ModeSymlink {
		t.Errorf("link is %+v", l)
	}
	if n := list.Root.Find("null"); n.Mode.Type() != fs.ModeDevice|fs.ModeCharDevice {
		t.Errorf("null is %+v", n)
	}
	if list.Root.Name != "" || list.Root.Find("none") != nil || list.Tags["version"] != "1" || len(list.Routes) != 2 {
		t.Errorf("it is %+v", list)
	}
	for first, want := range map[byte][2]bool{0: {true, false}, 126: {true, false}, 127: {true, true}, 128: {false, true}, 255: {false, true}} {
		id := flist.Hash{first}
		if got := [2]bool{list.Routes[0].Has(id), list.Routes[1].Has(id)}; got != want {
			t.Errorf("routes of %d: %v, want %v", first, got, want)
		}
	}
}

// What isn't one consistent tree is refused, with the reason.
func TestWrongRows(t *testing.T) {
	set := func(change func(r *flist.InodeRow)) rows { return inodes(with(file(2, 1, "f"), change)) }
	for name, c := range map[string]struct {
		rows rows
		says string
	}{
		"no root": {func(b *flist.Builder) error { return b.Inode(file(2, 1, "f")) }, "no inode 1"},
		"nothing": {func(*flist.Builder) error { return nil }, "no inode 1"},
		"a root that is a file": {func(b *flist.Builder) error {
			return b.Inode(with(root(), func(r *flist.InodeRow) { r.Mode = regular }))
		}, "must have parent 0 and be a folder"},
		"a root below itself": {func(b *flist.Builder) error {
			return b.Inode(with(root(), func(r *flist.InodeRow) { r.Parent = 1 }))
		}, "must have parent 0 and be a folder"},
		"an inode twice":        {inodes(file(2, 1, "f"), file(2, 1, "g")), "inode 2 twice"},
		"a name twice":          {inodes(file(2, 1, "f"), file(3, 1, "f")), `has "f" twice`},
		"no parent":             {inodes(file(2, 9, "f")), "is inode 9, which is no folder"},
		"a file as parent":      {inodes(file(2, 1, "f"), file(3, 2, "g")), "is inode 2, which is no folder"},
		"a second root":         {inodes(file(2, 0, "f")), "is inode 0, which is no folder"},
		"its own parent":        {set(func(r *flist.InodeRow) { r.Parent, r.Mode = 2, folder }), "lead in a circle"},
		"a circle":              {inodes(with(file(2, 3, "f"), func(r *flist.InodeRow) { r.Mode = folder }), with(file(3, 2, "g"), func(r *flist.InodeRow) { r.Mode = folder })), "of its 3 entries 2 aren't below the root"},
		"an empty name":         {inodes(file(2, 1, "")), `is ""`},
		"a path":                {inodes(file(2, 1, "../f")), `is "../f"`},
		"a dot":                 {inodes(file(2, 1, ".")), `is "."`},
		"two dots":              {inodes(file(2, 1, "..")), `is ".."`},
		"a NUL":                 {inodes(file(2, 1, "a\x00b")), `is "a\x00b"`},
		"a long name":           {inodes(file(2, 1, strings.Repeat("n", 256))), "must be 1 to 255 bytes"},
		"inode 0":               {set(func(r *flist.InodeRow) { r.Ino = 0 }), "ino of inode 0 is 0"},
		"a negative inode":      {set(func(r *flist.InodeRow) { r.Ino = -2 }), "ino of inode -2 is -2"},
		"a negative parent":     {set(func(r *flist.InodeRow) { r.Parent = -1 }), "parent of inode 2 is -1"},
		"a negative size":       {set(func(r *flist.InodeRow) { r.Size = -1 }), "size of inode 2 is -1"},
		"a negative user":       {set(func(r *flist.InodeRow) { r.UID = -1 }), "uid of inode 2 is -1"},
		"a large group":         {set(func(r *flist.InodeRow) { r.GID = 1 << 32 }), "gid of inode 2 is 4294967296"},
		"a large mode":          {set(func(r *flist.InodeRow) { r.Mode = 1 << 16 }), "mode of inode 2 is 65536"},
		"no type":               {set(func(r *flist.InodeRow) { r.Mode = 0o644 }), "of no type of file"},
		"a strange type":        {set(func(r *flist.InodeRow) { r.Mode = 0o170644 }), "of no type of file"},
		"too few blocks":        {set(func(r *flist.InodeRow) { r.Size = flist.BlockSize + 1 }).and(block(2)), "524289 bytes and 1 blocks"},
		"too many blocks":       {set(func(r *flist.InodeRow) { r.Size = flist.BlockSize }).and(block(2)).and(block(2)), "524288 bytes and 2 blocks"},
		"a block of nothing":    {inodes(file(2, 1, "f")).and(block(2)), "0 bytes and 1 blocks"},
		"a size that overflows": {set(func(r *flist.InodeRow) { r.Size = 1<<63 - 1 }), "they don't agree"},
		"a folder's block":      {inodes(with(file(2, 1, "f"), func(r *flist.InodeRow) { r.Mode = folder })).and(block(2)), "no regular file"},
		"nobody's block":        {inodes().and(block(2)), "a block for inode 2, which isn't there"},
		"a short ID":            {inodes(file(2, 1, "f")).and(func(b *flist.Builder) error { return b.Block(2, hash[1:], hash) }), "31 and 32 bytes"},
		"a long key":            {inodes(file(2, 1, "f")).and(func(b *flist.Builder) error { return b.Block(2, hash, append(hash, 0)) }), "32 and 33 bytes"},
		"no target":             {set(func(r *flist.InodeRow) { r.Mode = symlink }), "has no target"},
		"an empty target":       {set(func(r *flist.InodeRow) { r.Mode = symlink }).and(extra(2, "")), "must be 1 to 4095 bytes"},
		"a long target":         {set(func(r *flist.InodeRow) { r.Mode = symlink }).and(extra(2, strings.Repeat("t", 4096))), "must be 1 to 4095 bytes"},
		"a target with a NUL":   {set(func(r *flist.InodeRow) { r.Mode = symlink }).and(extra(2, "a\x00")), "without NUL"},
		"two targets":           {set(func(r *flist.InodeRow) { r.Mode = symlink }).and(extra(2, "a")).and(extra(2, "b")), "twice"},
		"a file's target":       {inodes(file(2, 1, "f")).and(extra(2, "a")), "no symbolic link"},
		"nobody's target":       {inodes().and(extra(2, "a")), "inode 2, which isn't there"},
		"a tag twice":           {inodes().and(tag("a", "b")).and(tag("a", "c")), `the tag "a" twice`},
		"a long tag":            {inodes().and(tag("a", strings.Repeat("b", 4096))), "more than 4096 bytes"},
		"many tags":             {inodes().and(repeat(65, func(i int) rows { return tag(fmt.Sprint(i), "") })), "more than 64 tags"},
		"a route down":          {inodes().and(route(5, 4, "http://a")), "goes from 5 to 4"},
		"a negative route":      {inodes().and(route(-1, 4, "http://a")), "goes from -1 to 4"},
		"a wide route":          {inodes().and(route(0, 256, "http://a")), "goes from 0 to 256"},
		"a route to nowhere":    {inodes().and(route(0, 255, "")), "an URL of 0 bytes"},
		"a long URL":            {inodes().and(route(0, 255, strings.Repeat("u", 2049))), "an URL of 2049 bytes"},
		"many routes":           {inodes().and(repeat(65, func(int) rows { return route(0, 255, "http://a") })), "more than 64 routes"},
	} {
		if _, err := build(c.rows); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "cannot use the flist: ") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// deep is a chain of folders.
func deep(folders int64) rows {
	return inodes().and(repeat(int(folders), func(i int) rows {
		return func(b *flist.Builder) error {
			return b.Inode(with(file(int64(i)+2, int64(i)+1, "d"), func(r *flist.InodeRow) { r.Mode = folder }))
		}
	}))
}

// Rows may share their bytes in a database: their text is bounded together.
func TestTextTogether(t *testing.T) {
	const each = 4095
	targets := func(n int) rows {
		return inodes().and(repeat(n, func(i int) rows {
			return func(b *flist.Builder) error {
				ino := int64(i) + 2
				r := with(file(ino, 1, fmt.Sprint(i)), func(r *flist.InodeRow) { r.Mode = unix.S_IFLNK | 0o777 })
				if err := b.Inode(r); err != nil {
					return err
				}
				return b.Extra(ino, bytes.Repeat([]byte("x"), each))
			}
		}))
	}
	// Names have up to 4 bytes.
	if _, err := build(targets(int(flist.Bytes.Each / (each + 4)))); err != nil {
		t.Errorf("the most that is allowed: %v", err)
	}
	before := limit.Times()[flist.Bytes.Name]
	if _, err := build(targets(int(flist.Bytes.Each/each) + 1)); node.KindOf(err) != node.Refused || limit.Times()[flist.Bytes.Name] != before+1 {
		t.Errorf("more: %v", err)
	}
}

// A flist that is as large as it may be is taken, a larger one isn't, and that is counted. Smaller limits show it sooner.
func TestLimits(t *testing.T) {
	many := func(entries int64) rows {
		return inodes().and(repeat(int(entries)-1, func(i int) rows {
			return func(b *flist.Builder) error { return b.Inode(file(int64(i)+2, 1, fmt.Sprint(i))) }
		}))
	}
	wide := func(blocks int64) rows {
		return inodes(with(file(2, 1, "f"), func(r *flist.InodeRow) { r.Size = blocks * flist.BlockSize })).and(repeat(int(blocks), func(int) rows { return block(2) }))
	}
	for name, c := range map[string]struct {
		of   *limit.Limit
		rows func(n int64) rows
	}{"entries": {&flist.Entries, many}, "blocks": {&flist.Blocks, wide}, "depth": {&flist.Depth, deep}} {
		whole := c.of.Each
		c.of.Each = min(whole, 5000)
		if _, err := build(c.rows(c.of.Each)); err != nil {
			t.Errorf("%s: the most that is allowed: %v", name, err)
		}
		before := limit.Times()[c.of.Name]
		if _, err := build(c.rows(c.of.Each + 1)); node.KindOf(err) != node.Refused || limit.Times()[c.of.Name] != before+1 {
			t.Errorf("%s: one more: %v, counted %d times", name, err, limit.Times()[c.of.Name]-before)
		}
		c.of.Each = whole
	}
}
