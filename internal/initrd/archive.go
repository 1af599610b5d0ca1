package initrd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"
)

// Types and permissions in an archive.
const (
	cpioFolder = 0o040755
	cpioFile   = 0o100755
	cpioPlain  = 0o100644
	cpioDevice = 0o020600
)

// Pack returns an initrd: a gzipped cpio archive, in format newc (the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst), of a program as /init, the modules as
// /modules/NN-NAME.ko, whose names are in the order to load them, and /dev/console, which the kernel opens for the
// program. The same content makes the same bytes.
func Pack(program []byte, modules []Module) ([]byte, error) {
	if len(modules) > 100 {
		return nil, errors.Errorf("cannot pack %d modules into an initrd: at most 100", len(modules))
	}
	return compress(archived(program, modules))
}

// File is a regular file of an initrd; its path is relative, such as modules/modules.dep. Folder makes it an empty folder instead.
type File struct {
	Path    string
	Content []byte
	Folder  bool
}

// PackFiles is Pack of any files instead of modules, compressed by zstd. The same content makes the same bytes.
func PackFiles(program []byte, files []File) ([]byte, error) {
	a := begun(program)
	folders := map[string]bool{".": true}
	var parents func(dir string)
	parents = func(dir string) {
		if !folders[dir] {
			folders[dir] = true
			parents(path.Dir(dir))
			a.add(dir, cpioFolder, nil, 0)
		}
	}
	for _, f := range files {
		if f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || strings.HasPrefix(f.Path, "../") {
			return nil, errors.Errorf("cannot pack %s into an initrd: its path must be relative and clean", f.Path)
		}
		if f.Folder {
			parents(f.Path)
			continue
		}
		parents(path.Dir(f.Path))
		a.add(f.Path, cpioPlain, f.Content, 0)
	}
	a.add("TRAILER!!!", 0, nil, 0)
	// One goroutine, so that the number of processors changes nothing.
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(a.Bytes(), nil), w.Close()
}

// begun is an archive with what every initrd has.
func begun(program []byte) *archive {
	var a archive
	a.add("dev", cpioFolder, nil, 0)
	a.add("dev/console", cpioDevice, nil, 5<<8|1)
	a.add("init", cpioFile, program, 0)
	return &a
}

func archived(program []byte, modules []Module) []byte {
	a := begun(program)
	a.add("modules", cpioFolder, nil, 0)
	for i, m := range modules {
		a.add(fmt.Sprintf("modules/%02d-%s.ko", i, m.Name), cpioFile, m.Content, 0)
	}
	a.add("TRAILER!!!", 0, nil, 0)
	return a.Bytes()
}

type archive struct {
	bytes.Buffer
	entries int
}

// add adds an entry; device is major<<8 | minor.
func (a *archive) add(name string, mode int, content []byte, device int) {
	a.entries++
	fmt.Fprintf(a, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.entries, mode, 0, 0, 1, 0, len(content), 0, 0, device>>8, device&0xff, len(name)+1, 0)
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(content)
	a.pad()
}

// pad fills up to a multiple of 4 bytes.
func (a *archive) pad() { a.Write(make([]byte, -a.Len()&3)) }

func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
