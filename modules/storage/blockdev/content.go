package blockdev

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// What must be zero of a disk for it to count as empty. Signatures say nothing of a disk whose partition table was erased: the file systems
// in its partitions are all there, but blkid doesn't see them. A disk has many TB, so that only its beginning and its end are read whole.
const (
	headSpan = 16 * int64(bytesize.MiB)
	// tailSpan has what partitions have at their end, which is the disk's, or some MiB before it: ZFS's last two labels, NTFS's copy of its boot
	// sector, RAID's superblocks.
	tailSpan = 16 * int64(bytesize.MiB)
	// startSpan is read where partitions usually start: of the usual file systems btrfs has its superblock farthest from the start, at 64 KiB.
	startSpan = 128 * int64(bytesize.KiB)
	// copySpan is read where a btrfs in such a partition has copies of its superblock.
	copySpan = 8 * int64(bytesize.KiB)
	// sampleCount samples of sampleSpan are spread evenly over the rest.
	sampleSpan  = 4 * int64(bytesize.KiB)
	sampleCount = 256
	// mostRead is how much is read at once.
	mostRead = int64(bytesize.MiB)
)

// usualStarts are where partitions usually start, in MiB: at 1, and behind others of the sizes that installers choose. Among them are the first
// backups of ext4's superblock (129, 385, 641, 897) and the usual place of NTFS's file table (3073) in a partition at 1 MiB.
func usualStarts() []int64 {
	return []int64{
		1, 16, 17, 32, 33, 64, 65, 100, 101, 117, 128, 129, 200, 201, 256, 257, 260, 261, 277, 300, 301, 351, 385, 500, 501, 512, 513, 516,
		551, 601, 641, 897, 1024, 1025, 1537, 1625, 2048, 2049, 3072, 3073, 4096, 4097,
	}
}

// span is a part of a disk, in bytes.
type span struct{ at, size int64 }

// spans are the parts that are read of a disk of that size, from its beginning to its end. Some overlap.
func spans(size int64) []span {
	tail := size - tailSpan
	if tail <= headSpan {
		return []span{{0, size}}
	}
	out := []span{{0, headSpan}, {tail, tailSpan}}
	add := func(at, size int64) {
		if at >= headSpan && at < tail {
			out = append(out, span{at, min(size, tail-at)})
		}
	}
	for _, mib := range usualStarts() {
		start := mib * int64(bytesize.MiB)
		add(start, startSpan)
		for _, at := range btrfs.Copies() {
			add(start+at, copySpan)
		}
	}
	between := tail - headSpan
	if between <= sampleCount*sampleSpan {
		out = append(out, span{headSpan, between})
	} else {
		step := (between - sampleSpan) / (sampleCount - 1)
		for i := range int64(sampleCount) {
			out = append(out, span{(headSpan + i*step) &^ (sampleSpan - 1), sampleSpan})
		}
	}
	slices.SortStableFunc(out, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	return out
}

// content looks for anything but zeros on the disk.
func content(ctx context.Context, disk string) (string, error) {
	f, err := os.Open(disk)
	if err != nil {
		return "", errors.Wrap(err, "cannot look at disk")
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", errors.Wrap(err, "cannot look at disk")
	}
	return contentOf(ctx, f, size)
}

// contentOf names what is on a disk of that size. What can't be read counts as content: with one bad sector, a disk isn't known to be empty.
func contentOf(ctx context.Context, disk io.ReaderAt, size int64) (string, error) {
	at, err := firstData(ctx, disk, size)
	switch {
	case ctx.Err() != nil:
		return "", node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot look at disk"))
	case err != nil:
		return fmt.Sprintf("%s at byte %d", Unreadable, at), nil
	case at < 0:
		return "", nil
	}
	return fmt.Sprintf("data of unknown form at byte %d", at), nil
}

// firstData is the offset of the first data that is found on a disk of that size; -1 if there are none. With an error it is the offset that
// can't be read.
func firstData(ctx context.Context, disk io.ReaderAt, size int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	begun, err := btrfs.Begun(disk)
	if err != nil {
		return btrfs.FirstOffset, err
	}
	buffer := make([]byte, min(size, mostRead))
	for _, s := range spans(size) {
		for at, end := s.at, s.at+s.size; at < end; at += mostRead {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			b := buffer[:min(end-at, mostRead)]
			if n, err := disk.ReadAt(b, at); n < len(b) {
				return at + int64(n), errors.Wrapf(err, "cannot read %d bytes at byte %d", len(b), at)
			}
			if begun {
				clearBegun(b, at)
			}
			if i := dataIn(b); i >= 0 {
				return at + int64(i), nil
			}
		}
	}
	return -1, nil
}

// clearBegun sets to zero, in what was read at an offset, all that a formatting has written that ended before its first sync. It
// doesn't count as data: Format is to be repeated after any crash.
func clearBegun(b []byte, at int64) {
	for _, s := range []span{{btrfs.SuperOffset, btrfs.SuperSize}, {btrfs.FirstOffset, btrfs.FirstSize}} {
		from, to := max(s.at-at, 0), min(s.at+s.size-at, int64(len(b)))
		if from < to {
			clear(b[from:to])
		}
	}
}

// dataIn is the index of the first byte that isn't zero; -1 if there is none.
func dataIn(b []byte) int {
	var zeros [4096]byte
	begin := 0
	for block := range slices.Chunk(b, len(zeros)) {
		if !bytes.Equal(block, zeros[:len(block)]) {
			return begin + slices.IndexFunc(block, func(c byte) bool { return c != 0 })
		}
		begin += len(block)
	}
	return -1
}
