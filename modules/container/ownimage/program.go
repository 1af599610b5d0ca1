package ownimage

import (
	"archive/tar"
	"debug/elf"
	"io"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// program is an image's program on the node.
type program struct {
	*os.File
	name string
	size int64
}

// open opens the program of an image, if it can run alone in a container here.
func open(name, path string) (program, error) {
	// Non-blocking: opening a pipe without a writer would block.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return program{}, node.Errorf(node.NotExist, "cannot make image %s: there is no program %s", name, path)
	}
	if err != nil {
		return program{}, errors.Wrapf(err, "cannot make image %s", name)
	}
	p, err := check(f, name)
	if err != nil {
		f.Close()
		return program{}, node.Errorf(node.KindOf(err), "cannot make image %s of %s: %w", name, path, err)
	}
	return p, nil
}

func check(f *os.File, name string) (program, error) {
	info, err := f.Stat()
	if err != nil {
		return program{}, err
	}
	if !info.Mode().IsRegular() {
		return program{}, node.Errorf(node.Invalid, "it isn't a regular file")
	}
	theirs, err := elf.NewFile(f)
	if err != nil {
		return program{}, node.Errorf(node.Invalid, "it isn't a program: %v", err)
	}
	ours, err := elf.Open("/proc/self/exe")
	if err != nil {
		return program{}, errors.Wrap(err, "cannot tell what this machine is")
	}
	defer ours.Close()
	if theirs.Machine != ours.Machine || theirs.Class != ours.Class || theirs.Data != ours.Data {
		return program{}, node.Errorf(node.Invalid, "it is for %s (%s, %s), this machine is %s (%s, %s)",
			theirs.Machine, theirs.Class, theirs.Data, ours.Machine, ours.Class, ours.Data)
	}
	return program{File: f, name: name, size: info.Size()}, static(theirs)
}

// static is Invalid for a program that needs other files.
func static(f *elf.File) error {
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return node.Errorf(node.Invalid, "it is no program but %s", f.Type)
	}
	for _, part := range f.Progs {
		if part.Type == elf.PT_INTERP {
			return node.Errorf(node.Invalid, "it isn't static: it needs a dynamic linker, which its image doesn't have")
		}
	}
	if needs, err := f.ImportedLibraries(); err == nil && len(needs) > 0 {
		return node.Errorf(node.Invalid, "it isn't static: it needs %v, which its image doesn't have", needs)
	}
	return nil
}

// tar writes the layer, with the same bytes for the same program.
func (p program) tar(out io.Writer) error {
	w := tar.NewWriter(out)
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: p.name, Mode: 0o755, Size: p.size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
	if err == nil {
		_, err = io.Copy(w, io.NewSectionReader(p, 0, p.size))
	}
	if err == nil {
		err = w.Close()
	}
	return errors.Wrapf(err, "cannot pack the program of image %s", p.name)
}
