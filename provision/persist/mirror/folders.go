package mirror

import (
	stderrors "errors"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// The files of a folder share an fsync, up to so many of them and so many bytes.
const (
	filesAtOnce = 64
	bytesAtOnce = 16 << 20
)

// folders writes the files of a store's folder, a few at a time.
type folders struct {
	root    string
	hook    atomicfile.Hook
	waiting map[string][]atomicfile.File
	files   int
	bytes   int
}

func (f *folders) write(name string, body []byte) error {
	below, file, nested := strings.Cut(name, "/")
	if !nested {
		below, file = "", name
	}
	f.waiting[below] = append(f.waiting[below], atomicfile.File{Name: file, Data: body})
	f.files, f.bytes = f.files+1, f.bytes+len(body)
	if f.files < filesAtOnce && f.bytes < bytesAtOnce {
		return nil
	}
	return f.flush()
}

// flush makes what waits durable.
func (f *folders) flush() error {
	for below, files := range f.waiting {
		to, err := atomicfile.Open(filepath.Join(f.root, below), f.hook)
		if err != nil {
			return node.WithKind(node.Internal, err)
		}
		if err := stderrors.Join(to.WriteAll(files), to.Close()); err != nil {
			return node.WithKind(node.Internal, err)
		}
		delete(f.waiting, below)
	}
	f.files, f.bytes = 0, 0
	return nil
}
