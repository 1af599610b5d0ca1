package source

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// mostMembers is how many files a tar of an image may hold, mostNames how many bytes
// their names may have together: one alone may have a mebibyte.
const (
	mostMembers = 10_000
	mostNames   = 4 << 20
)

// tarball is a tar whose files are read where they lie.
type tarball struct {
	file    *os.File
	members map[string]*io.SectionReader
}

// openTar lists the files of a tar, and returns it as a source: an OCI layout, or an
// archive of docker save. The source closes the file.
func openTar(r Reference, f *os.File) (Source, error) {
	a := &tarball{file: f, members: map[string]*io.SectionReader{}}
	s, err := a.source(r)
	if err != nil {
		f.Close()
		return nil, localError(err, r)
	}
	return s, nil
}

func (a *tarball) source(r Reference) (Source, error) {
	if err := a.scan(); err != nil {
		return nil, err
	}
	if a.members["index.json"] != nil {
		return &layout{ref: r, files: a}, nil
	}
	if a.members["manifest.json"] != nil {
		return openSaved(r, a)
	}
	return nil, node.Errorf(node.Invalid, "cannot find an index.json or a manifest.json in it")
}

// scan records where each file begins. The reader of the tar seeks past their
// content.
func (a *tarball) scan() error {
	names := 0
	for r, n := tar.NewReader(a.file), 0; ; n++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return node.Errorf(node.Invalid, "cannot read it as a tar: %w", err)
		case n >= mostMembers:
			return node.Errorf(node.Invalid, "cannot use it: it holds more than %d files", mostMembers)
		case names+len(h.Name) > mostNames:
			return node.Errorf(node.Invalid, "cannot use it: the names of its files have more than %d bytes", mostNames)
		case h.Typeflag != tar.TypeReg:
			continue
		}
		names += len(h.Name)
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		a.members[path.Clean(h.Name)] = io.NewSectionReader(a.file, at, h.Size)
	}
}

// Open implements files. Each reader has a place of its own.
func (a *tarball) Open(name string) (io.ReadCloser, error) {
	m := a.members[name]
	if m == nil {
		return nil, fs.ErrNotExist
	}
	return member{io.NewSectionReader(m, 0, m.Size())}, nil
}

func (a *tarball) Close() error { return a.file.Close() }

type member struct{ *io.SectionReader }

func (member) Close() error { return nil }
