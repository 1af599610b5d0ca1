package discard

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/volume"
)

// TestPartsOfExtentsStay: what ends a disk before its size when the guest's discards are holes (TestPartsOfAnExtentDontComeFree of
// modules/storage) doesn't do so through Discard.
func TestPartsOfExtentsStay(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	const size = 32 * mib
	f, vdisk := p.disk("8-1", size)
	d, err := OpenDisk(int(f.Fd()))
	must(t, err)
	data := pages(t, mib)
	for round := uint64(0); round < 8; round++ {
		for at := uint64(0); at < size; at += mib {
			if _, err := f.WriteAt(data, int64(at)); err != nil {
				t.Fatalf("round %d: writing at %d MiB: %v", round, at/mib, err)
			}
			must(t, f.Sync())
			must(t, d.Discard(at+(round+1)*blockSize, mib-(round+1)*blockSize, always))
		}
	}
	used, limit := p.used("8-1", f), volume.DiskRoom(vdisk.Size)
	if used < size || used > size+size/16 {
		t.Errorf("%d bytes of %d are used, want the size of %d and its map", used, limit, size)
	}
	must(t, d.Discard(0, size, always))
	if used := p.used("8-1", f); used > mib {
		t.Errorf("when all is discarded, %d bytes are used", used)
	}
}

// TestRandomUse: whatever is written and discarded at once, by blocks or in large pieces, of any alignment, on a disk that is nearly full, the disk
// takes its size, what isn't discarded keeps its content, and a discard of everything gives everything back.
func TestRandomUse(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	const (
		size    = 48 * mib
		writers = 4
		steps   = 400
	)
	f, vdisk := p.disk("8-1", size)
	d, err := OpenDisk(int(f.Fd()))
	must(t, err)
	data := pages(t, 4*mib)
	for i := range data {
		data[i] = byte(i/blockSize + 1)
	}
	var one sync.Mutex // a discarder serves one request at a time
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 21))
			for range steps {
				blocks := uint64(1) << r.UintN(11)
				at := r.Uint64N(size/blockSize-blocks+1) * blockSize
				if r.UintN(3) > 0 {
					if _, err := f.WriteAt(data[:blocks*blockSize], int64(at)); err != nil {
						t.Errorf("writing %d blocks: %v", blocks, err)
						return
					}
					continue
				}
				// A guest's sectors have 512 bytes.
				from, length := at+r.Uint64N(8)*512, blocks*blockSize*r.Uint64N(8)/4+512
				one.Lock()
				err := d.Discard(from, min(length, size-from), always)
				one.Unlock()
				if err != nil {
					t.Errorf("discarding: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	var stat unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &stat))
	used, live := p.used("8-1", f), uint64(stat.Blocks)*512
	t.Logf("%d bytes are used, %d of them by the file's blocks", used, live)
	if used > live+size/16 || used > volume.DiskRoom(vdisk.Size) {
		t.Errorf("%d bytes are used, while the file has %d", used, live)
	}
	for at := int64(0); at < size; at += 4 * mib {
		_, err := f.WriteAt(data, at)
		must(t, err)
	}
	must(t, d.Discard(mib, size-mib-mib/2, always))
	got := pages(t, mib)
	for _, at := range []int64{0, size - mib/2} {
		length := min(int64(mib), size-at)
		_, err := f.ReadAt(got[:length], at)
		must(t, err)
		for i, b := range got[:length] {
			if want := byte((int(at)%(4*mib)+i)/blockSize + 1); b != want {
				t.Fatalf("byte %d, which isn't discarded, is %d, want %d", int(at)+i, b, want)
			}
		}
	}
	must(t, d.Discard(0, size, always))
	if used := p.used("8-1", f); used > mib {
		t.Errorf("when all is discarded, %d bytes are used", used)
	}
}

// TestAFullDiskThatIsDiscarded: on a full disk many writers at once may write what they have just discarded, over and over, although what is given back
// counts for the quota until it is committed.
func TestAFullDiskThatIsDiscarded(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	const (
		writers = 16
		each    = 10 // MiB of a writer
		rounds  = 4
		size    = writers * each * mib
	)
	f, vdisk := p.disk("8-1", size)
	d, err := OpenDisk(int(f.Fd()))
	must(t, err)
	d.every = 0
	data := pages(t, mib)
	var one sync.Mutex
	var group sync.WaitGroup
	for w := range int64(writers) {
		group.Go(func() {
			for n := range int64(rounds * each) {
				at := (w*each + n%each) * mib
				one.Lock()
				err := d.Discard(uint64(at), mib, always)
				one.Unlock()
				if err == nil {
					_, err = f.WriteAt(data, at)
				}
				if err != nil {
					t.Errorf("round %d: %v", n/each, err)
					return
				}
			}
		})
	}
	group.Wait()
	if used, limit := p.used("8-1", f), volume.DiskRoom(vdisk.Size); used < size || used > size+size/16 {
		t.Errorf("%d bytes of %d are used, want the size of %d and its map", used, limit, size)
	}
}

// TestManyExtents: a request over more extents than one search finds, and one that is over in its midst.
func TestManyExtents(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	const size = 16 * mib
	f, _ := p.disk("8-1", size)
	d, err := OpenDisk(int(f.Fd()))
	must(t, err)
	data := pages(t, blockSize)
	blocks := rand.New(rand.NewPCG(1, 2)).Perm(size / blockSize)
	// Every second block stays a hole, so that none has a neighbour.
	for _, i := range blocks {
		if i%2 == 0 {
			_, err := f.WriteAt(data, int64(i)*blockSize)
			must(t, err)
		}
	}
	must(t, f.Sync())
	left := 100
	must(t, d.Discard(0, size, func() bool { left--; return left >= 0 }))
	if used := p.used("8-1", f); used < size/2-101*blockSize {
		t.Errorf("a request that is over after 100 extents leaves %d bytes", used)
	}
	must(t, d.Discard(0, size, always))
	if used := p.used("8-1", f); used > mib {
		t.Errorf("when all is discarded, %d bytes are used", used)
	}
}

// TestNotYetWritten: what the kernel still has to write is no extent: it stays, and is written.
func TestNotYetWritten(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	direct, vdisk := p.disk("8-1", 8*mib)
	f, err := os.OpenFile(vdisk.Path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	d, err := OpenDisk(int(f.Fd()))
	must(t, err)
	_, err = f.WriteAt(make([]byte, mib), 2*mib)
	must(t, err)
	must(t, d.Discard(2*mib+blockSize, mib-blockSize, always))
	if used := p.used("8-1", direct); used < mib || used > mib+mib/4 {
		t.Errorf("%d bytes are used, want those of 1 MiB", used)
	}
	must(t, d.Discard(2*mib, mib, always))
	if used := p.used("8-1", direct); used > mib/4 {
		t.Errorf("when all is discarded, %d bytes are used", used)
	}
}

func TestOtherFileSystems(t *testing.T) {
	t.Parallel()
	fd, err := unix.MemfdCreate("disk", unix.MFD_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), filepath.Join("/memfd", "disk"))
	defer f.Close()
	if _, err := OpenDisk(fd); !errors.Is(err, ErrNotBtrfs) {
		t.Errorf("a file in memory: %v", err)
	}
}
