package discard

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/pooltest"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	mib = 1 << 20
	// blockSize is that of btrfs, in bytes.
	blockSize = 4096
	// patience is for processes that wait for the processors.
	patience = 2 * time.Minute
)

// This binary is also a discarder, a process that has one, and a discarder that somebody has taken over.
const (
	discarder  = "be-discarder"
	supervised = "be-supervised"
	captured   = "be-captured"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case discarder:
			err = Serve()
		case supervised:
			err = beSupervised(os.Args[2:])
		case captured:
			err = beCaptured()
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// pool is a real pool on a loop file, with quotas.
type pool struct {
	t      *testing.T
	module *storage.Module
}

func newPool(t *testing.T) pool {
	t.Helper()
	return pool{t, pooltest.Open(t)}
}

// disk makes a virtual disk of a size in bytes, open for direct reads and writes: the machine's page cache would make one extent of
// neighbouring writes.
func (p pool) disk(name string, size uint64) (*os.File, node.VDisk) {
	p.t.Helper()
	d, err := p.module.VDisks().Allocate(node.VDiskSpec{Name: name, Size: size})
	must(p.t, err)
	f, err := os.OpenFile(d.Path, os.O_RDWR|unix.O_DIRECT, 0)
	must(p.t, err)
	p.t.Cleanup(func() { f.Close() })
	return f, d
}

// used is what a disk takes of the pool after a commit, in bytes.
func (p pool) used(name string, f *os.File) uint64 {
	p.t.Helper()
	must(p.t, unix.Syncfs(int(f.Fd())))
	d, err := p.module.VDisks().Inspect(name)
	must(p.t, err)
	return d.Used
}

// pages is memory at the start of a page, as direct writes want it.
func pages(t *testing.T, size int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(data)) })
	return data
}

func always() bool { return true }
