package flist

import (
	"io/fs"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// Limits of single values, in bytes: those of Linux for names and links' targets.
const (
	mostName   = 255
	mostTarget = 4095
	mostTag    = 4096
	mostURL    = 2048
)

// Limits of numbers of rows.
const (
	mostTags   = 64
	mostRoutes = 64
)

// rootIno is the number of the root's inode.
const rootIno = 1

// InodeRow is a row of the table inode. Mode is a st_mode: type and permission bits.
type InodeRow struct {
	Ino, Parent          int64
	Name                 string
	Size, UID, GID, Mode int64
}

// Builder makes an index of the rows of a database: first those of the table inode, then the others'. An error of one of
// its methods is final.
type Builder struct {
	inodes map[int64]*inode
	order  []*inode
	blocks int64
	// text is how many bytes names and links' targets have together.
	text int64
	out  Flist
}

// inode is an entry with what puts it into the tree.
type inode struct {
	Entry
	ino, parent int64
	target      bool
}

// NewBuilder makes a builder without rows.
func NewBuilder() *Builder {
	return &Builder{inodes: map[int64]*inode{}, out: Flist{Tags: map[string]string{}}}
}

// reached counts that a limit was reached.
func reached(l *limit.Limit, what string) error {
	l.Reached()
	return Refused("it has more than %d %s", l.Each, what)
}

// Inode takes a row of the table inode.
func (b *Builder) Inode(r InodeRow) error {
	if int64(len(b.order)) >= Entries.Each {
		return reached(&Entries, "entries")
	}
	if err := r.wrong(); err != nil {
		return err
	}
	if err := b.spend(len(r.Name)); err != nil {
		return err
	}
	if b.inodes[r.Ino] != nil {
		return Refused("it has inode %d twice", r.Ino)
	}
	mode, ok := modeOf(uint32(r.Mode))
	if !ok {
		return Refused("inode %d (%.100q) has mode %o, which is of no type of file", r.Ino, r.Name, r.Mode)
	}
	n := &inode{Entry: Entry{Name: r.Name, Mode: mode, UID: uint32(r.UID), GID: uint32(r.GID), Size: r.Size}, ino: r.Ino, parent: r.Parent}
	b.inodes[r.Ino], b.order = n, append(b.order, n)
	return nil
}

// spend counts text, of which no database has more than its own bytes, unless rows share them.
func (b *Builder) spend(bytes int) error {
	if b.text += int64(bytes); b.text > Bytes.Each {
		return reached(&Bytes, "bytes of names and links' targets")
	}
	return nil
}

// wrong is the error of a row by itself.
func (r InodeRow) wrong() error {
	outside := func(name string, value, least, most int64) error {
		return Refused("%s of inode %d is %d, must be from %d to %d", name, r.Ino, value, least, most)
	}
	switch {
	case r.Ino < rootIno:
		return outside("ino", r.Ino, rootIno, math.MaxInt64)
	case r.Parent < 0:
		return outside("parent", r.Parent, 0, math.MaxInt64)
	case r.Size < 0:
		return outside("size", r.Size, 0, math.MaxInt64)
	case r.UID < 0 || r.UID > math.MaxUint32:
		return outside("uid", r.UID, 0, math.MaxUint32)
	case r.GID < 0 || r.GID > math.MaxUint32:
		return outside("gid", r.GID, 0, math.MaxUint32)
	case r.Mode < 0 || r.Mode > math.MaxUint16:
		return outside("mode", r.Mode, 0, math.MaxUint16)
	}
	if r.Ino == rootIno {
		if r.Parent != 0 || r.Mode&unix.S_IFMT != unix.S_IFDIR {
			return Refused("inode 1, the root, has parent %d and mode %o, must have parent 0 and be a folder", r.Parent, r.Mode)
		}
		return nil // its name counts for nothing
	}
	if len(r.Name) > mostName || r.Name == "" || r.Name == "." || r.Name == ".." || strings.ContainsAny(r.Name, "/\x00") {
		return Refused("the name of inode %d is %.100q, must be 1 to %d bytes without / and NUL, and neither . nor ..", r.Ino, r.Name, mostName)
	}
	return nil
}

// modeOf is Go's form of a st_mode.
func modeOf(mode uint32) (fs.FileMode, bool) {
	out := fs.FileMode(mode & 0o777)
	if mode&unix.S_ISUID != 0 {
		out |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		out |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		out |= fs.ModeSticky
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		out |= fs.ModeDir
	case unix.S_IFLNK:
		out |= fs.ModeSymlink
	case unix.S_IFIFO:
		out |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		out |= fs.ModeSocket
	case unix.S_IFBLK:
		out |= fs.ModeDevice
	case unix.S_IFCHR:
		out |= fs.ModeDevice | fs.ModeCharDevice
	default:
		return 0, false
	}
	return out, true
}

// Extra takes a row of the table extra: the target of a symbolic link.
func (b *Builder) Extra(ino int64, data []byte) error {
	n := b.inodes[ino]
	switch {
	case n == nil:
		return Refused("it has a link's target for inode %d, which isn't there", ino)
	case n.Mode.Type() != fs.ModeSymlink:
		return Refused("it has a link's target for %.100q, which is no symbolic link", n.Name)
	case n.target:
		return Refused("it has the target of %.100q twice", n.Name)
	case len(data) == 0 || len(data) > mostTarget || slices.Contains(data, 0):
		return Refused("the target of %.100q is %.100q, must be 1 to %d bytes without NUL", n.Name, data, mostTarget)
	}
	n.Target, n.target = string(data), true
	return b.spend(len(data))
}

// Block takes a row of the table block, in the order of rows.
func (b *Builder) Block(ino int64, id, key []byte) error {
	if b.blocks++; b.blocks > Blocks.Each {
		return reached(&Blocks, "blocks")
	}
	n := b.inodes[ino]
	switch {
	case n == nil:
		return Refused("it has a block for inode %d, which isn't there", ino)
	case !n.Mode.IsRegular():
		return Refused("it has a block for %.100q, which is no regular file", n.Name)
	case len(id) != len(Hash{}) || len(key) != len(Hash{}):
		return Refused("the ID and the key of a block of %.100q have %d and %d bytes, must have %d", n.Name, len(id), len(key), len(Hash{}))
	}
	n.Blocks = append(n.Blocks, Block{ID: Hash(id), Key: Hash(key)})
	return nil
}

// Tag takes a row of the table tag.
func (b *Builder) Tag(key, value string) error {
	switch _, twice := b.out.Tags[key]; {
	case len(b.out.Tags) >= mostTags:
		return Refused("it has more than %d tags", mostTags)
	case twice:
		return Refused("it has the tag %.100q twice", key)
	case len(key)+len(value) > mostTag:
		return Refused("its tag %.100q has more than %d bytes", key, mostTag)
	}
	b.out.Tags[key] = value
	return nil
}

// Route takes a row of the table route.
func (b *Builder) Route(start, end int64, url string) error {
	switch {
	case len(b.out.Routes) >= mostRoutes:
		return Refused("it has more than %d routes", mostRoutes)
	case start < 0 || end < start || end > math.MaxUint8:
		return Refused("a route goes from %d to %d, must go up from 0 or more to at most 255", start, end)
	case url == "" || len(url) > mostURL:
		return Refused("a route has an URL of %d bytes, must have 1 to %d", len(url), mostURL)
	}
	b.out.Routes = append(b.out.Routes, Route{First: byte(start), Last: byte(end), URL: url})
	return nil
}

// Flist returns the index, after the last row. The builder is of no use after it.
func (b *Builder) Flist() (*Flist, error) {
	root := b.inodes[rootIno]
	if root == nil {
		return nil, Refused("it has no inode 1, the root")
	}
	for _, n := range b.order {
		if err := b.place(n); err != nil {
			return nil, err
		}
	}
	seen, err := settle(&root.Entry, 0)
	if err != nil {
		return nil, err
	}
	if seen != len(b.order) {
		return nil, Refused("of its %d entries %d aren't below the root: their parents lead in a circle", len(b.order), len(b.order)-seen)
	}
	root.Name = ""
	b.out.Root = &root.Entry
	return &b.out, nil
}

// place checks what needs all rows of an entry, and puts it into its folder.
func (b *Builder) place(n *inode) error {
	if n.Mode.IsRegular() {
		if n.Size > math.MaxInt64-BlockSize || (n.Size+BlockSize-1)/BlockSize != int64(len(n.Blocks)) {
			return Refused("%.100q has %d bytes and %d blocks: they don't agree", n.Name, n.Size, len(n.Blocks))
		}
	}
	if n.Mode.Type() == fs.ModeSymlink && !n.target {
		return Refused("the symbolic link %.100q has no target", n.Name)
	}
	if n.ino == rootIno {
		return nil
	}
	folder := b.inodes[n.parent]
	if folder == nil || !folder.Mode.IsDir() {
		return Refused("the parent of %.100q is inode %d, which is no folder", n.Name, n.parent)
	}
	folder.Entries = append(folder.Entries, &n.Entry)
	return nil
}

// settle sorts the entries of a folder and all below it, and counts them with the folder itself.
func settle(e *Entry, depth int64) (int, error) {
	if depth > Depth.Each {
		Depth.Reached()
		return 0, Refused("%.100q lies below more than %d folders", e.Name, Depth.Each)
	}
	slices.SortFunc(e.Entries, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	seen := 1
	for i, one := range e.Entries {
		if i > 0 && e.Entries[i-1].Name == one.Name {
			return 0, Refused("a folder of it has %.100q twice", one.Name)
		}
		below, err := settle(one, depth+1)
		if err != nil {
			return 0, err
		}
		seen += below
	}
	return seen, nil
}
