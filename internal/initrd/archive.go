package initrd

import (
	"bytes"
	"compress/gzip"
	"fmt"
)

// Types and permissions in an archive.
const (
	cpioFolder = 0o040755
	cpioFile   = 0o100755
	cpioDevice = 0o020600
)

// Pack returns an initrd: a gzipped cpio archive, in format newc (the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst), of a program as /init, the modules as
// /modules/NN-NAME.ko, whose names are in the order to load them, and /dev/console, which the kernel opens for the
// program. The same content makes the same bytes.
func Pack(program []byte, modules []Module) ([]byte, error) {
	if len(modules) > 100 {
		return nil, fmt.Errorf("cannot pack %d modules into an initrd: at most 100", len(modules))
	}
	return compress(archived(program, modules))
}

func archived(program []byte, modules []Module) []byte {
	var a archive
	a.add("dev", cpioFolder, nil, 0)
	a.add("dev/console", cpioDevice, nil, 5<<8|1)
	a.add("init", cpioFile, program, 0)
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
