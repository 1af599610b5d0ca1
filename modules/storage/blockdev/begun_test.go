package blockdev

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// head is a disk of zeros but for its beginning.
type head []byte

func (h head) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(h)) {
		copy(b, h[at:])
	}
	return len(b), nil
}

// readHead is the beginning of a disk.
func readHead(t *testing.T, disk string) head {
	t.Helper()
	f, err := os.Open(disk)
	check(t, err)
	defer f.Close()
	h := make(head, headSize)
	_, err = f.ReadAt(h, 0)
	check(t, err)
	return h
}

const (
	sector = 512
	block  = 4096
	// firstCount blocks are written by mkfs.btrfs --mixed before its first sync. The first of them is written again later.
	firstCount = 7
	headSize   = mib + 64*kib
)

// beforeSync is what mkfs.btrfs has written of a pool's beginning before its first sync.
func beforeSync(t *testing.T) head {
	t.Helper()
	disk := sparse(t, 256*mib)
	check(t, Format(t.Context(), disk, "ssd0", false))
	made, h := readHead(t, disk), make(head, headSize)
	copy(h[64*kib:], made[64*kib:64*kib+block])
	copy(h[mib:], made[mib:mib+firstCount*block])
	h[64*kib+0x40] = '!'
	h[mib+0x50] = 1
	for i := range firstCount {
		if !isHeader(h, mib+i*block) {
			t.Fatalf("block %d is %x", i, h[mib+i*block:][:128])
		}
	}
	return h
}

// isHeader reports whether a sector has a block's header with its offset.
func isHeader(h head, at int) bool {
	return bytes.Equal(h[at+0x30:at+0x38], []byte{byte(at), byte(at >> 8), byte(at >> 16), 0, 0, 0, 0, 0}) && h[at+0x50] == 1
}

// torn is a beginning of which a power cut has lost sectors: each is left with that probability. headers is how many headers of blocks are left.
func torn(whole head, random *rand.Rand, left float64) (h head, headers int) {
	h = slices.Clone(whole)
	for at := 0; at < len(h); at += sector {
		if random.Float64() >= left {
			clear(h[at : at+sector])
		} else if at >= mib && at < mib+firstCount*block && at%block == 0 {
			headers++
		}
	}
	return h, headers
}

// TestUnfinishedFormatting: of what mkfs.btrfs writes before its first sync, a power cut can leave any sectors. They don't keep the disk
// from being formatted again, unless no block's header is among them.
func TestUnfinishedFormatting(t *testing.T) {
	const size = 256 * mib
	whole := beforeSync(t)
	random := rand.New(rand.NewPCG(1, 2))
	empty, refused := 0, 0
	for i := range 150 {
		h, headers := torn(whole, random, float64(i%30)/29)
		at, err := firstData(t.Context(), h, headSize)
		check(t, err)
		something := !bytes.Equal(h, make(head, len(h)))
		if want := something && headers == 0; at >= 0 != want {
			t.Fatalf("with %d headers there is data at %d", headers, at)
		}
		if at >= 0 {
			refused++
		} else {
			empty++
		}
	}
	if empty < 50 || refused < 3 {
		t.Errorf("of %d and %d disks nothing is learnt", empty, refused)
	}

	only := make(head, headSize)
	copy(only[mib+3*block:], whole[mib+3*block:][:sector])
	disk := sparse(t, size)
	write(t, disk, 0, only)
	wantContent(t, disk, "")
	check(t, Format(t.Context(), disk, "ssd0", false))
	if made, err := btrfs.ReadSuper(disk); err != nil || made.Label != LabelPrefix+"ssd0" {
		t.Errorf("formatted again it is %+v, %v", made, err)
	}
}

// TestUnfinishedFormattingBesideData: only the places of the formatting itself don't count.
func TestUnfinishedFormattingBesideData(t *testing.T) {
	whole := beforeSync(t)
	for _, at := range []int64{0, 64*kib - 1, 68 * kib, mib - 1, mib + 64*kib, 2 * mib, 16 * mib, 200 * mib, 256*mib - 1} {
		disk := sparse(t, 256*mib)
		write(t, disk, 0, whole)
		wantContent(t, disk, "")
		write(t, disk, at, []byte{1})
		wantContent(t, disk, "data of unknown form at byte "+strconv.FormatInt(at, 10))
	}
}

// TestWholeFileSystemWithoutSuperblocks: it begins as a formatting that was ended, and has data elsewhere.
func TestWholeFileSystemWithoutSuperblocks(t *testing.T) {
	files := t.TempDir()
	check(t, os.WriteFile(files+"/kept", bytes.Repeat([]byte("kept"), 5000), 0o600))
	for name, args := range map[string][]string{
		"usual":            nil,
		"mixed":            {"--mixed"},
		"pool":             {"--mixed", "-m", "single", "-d", "single"},
		"files":            {"--rootdir", files},
		"mixed with files": {"--mixed", "-n", "4096", "--rootdir", files},
	} {
		t.Run(name, func(t *testing.T) {
			disk := sparse(t, 300*mib)
			tool(t, "mkfs.btrfs", append(append([]string{"-q"}, args...), disk)...)
			for _, at := range []int64{64 * kib, 64 * mib} {
				write(t, disk, at, make([]byte, block))
			}
			f, err := os.Open(disk)
			check(t, err)
			defer f.Close()
			begun, err := btrfs.Begun(f)
			check(t, err)
			if at, err := firstData(t.Context(), f, 300*mib); err != nil || at < 0 || begun && at < mib+64*kib {
				t.Errorf("there is data at %d, %v; begun: %v", at, err, begun)
			}
		})
	}
}

// broken is a disk of zeros that can't be read from an offset on.
type broken struct {
	from  int64
	cause error
	after func()
}

func (d broken) ReadAt(b []byte, at int64) (int, error) {
	n := min(max(d.from-at, 0), int64(len(b)))
	clear(b[:n])
	if n == int64(len(b)) {
		return len(b), nil
	}
	if d.after != nil {
		d.after()
	}
	return int(n), d.cause
}

// TestUnreadable: what can't be read may be anything, and counts as content.
func TestUnreadable(t *testing.T) {
	for from, cause := range map[int64]error{0: io.EOF, 5 * block: unix.EIO, 20 * mib: unix.EIO, gib - mib - block: unix.EIO, gib - 1: io.EOF} {
		at, err := firstData(t.Context(), broken{from: from, cause: cause}, gib)
		if !errors.Is(err, cause) || at < 0 {
			t.Errorf("a disk that can't be read from %d gives %d, %v", from, at, err)
		}
		got, err := contentOf(t.Context(), broken{from: from, cause: cause}, gib)
		if want := "data that can't be read at byte " + strconv.FormatInt(at, 10); err != nil || got != want {
			t.Errorf("a disk that can't be read from %d has %q, %v, want %q", from, got, err, want)
		}
	}
	if got, err := contentOf(t.Context(), broken{from: gib - mib - block, cause: unix.EIO}, gib); err != nil || got != "data that can't be read at byte 1072689152" {
		t.Errorf("a bad sector is %q, %v", got, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if got, err := contentOf(ctx, broken{from: 20 * mib, cause: unix.EIO, after: cancel}, gib); !errors.Is(err, context.Canceled) || !errors.Is(err, node.Transient) {
		t.Errorf("a disk that can't be read when it is over has %q, %v", got, err)
	}
	disk := &counted{}
	if _, err := firstData(ctx, disk, gib); !errors.Is(err, context.Canceled) || disk.reads > 0 {
		t.Errorf("when it is over %d parts are read, %v", disk.reads, err)
	}
	if _, err := content(ctx, sparse(t, gib)); !errors.Is(err, context.Canceled) || !errors.Is(err, node.Transient) {
		t.Errorf("when it is over there is %v", err)
	}
}
