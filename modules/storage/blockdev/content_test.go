package blockdev

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sparse is a file of zeros that takes no space.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Truncate(path, size))
	return path
}

func write(t *testing.T, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt(data, at)
	check(t, err)
	check(t, f.Close())
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s %v", name, out, err)
	}
}

// wantContent checks what is found on a disk, and that it isn't changed.
func wantContent(t *testing.T, disk, want string) {
	t.Helper()
	var before, after unix.Stat_t
	check(t, unix.Stat(disk, &before))
	got, err := content(t.Context(), disk)
	check(t, err)
	if got != want {
		t.Errorf("it holds %q, want %q", got, want)
	}
	check(t, unix.Stat(disk, &after))
	if before.Mtim != after.Mtim || before.Blocks != after.Blocks || before.Size != after.Size {
		t.Error("the disk was changed")
	}
}

// counted counts what is read of a disk. With no disk it is one of zeros of any size.
type counted struct {
	disk        io.ReaderAt
	reads, most int
	bytes       int64
}

func (c *counted) ReadAt(b []byte, at int64) (int, error) {
	c.reads++
	c.most = max(c.most, len(b))
	c.bytes += int64(len(b))
	if c.disk == nil {
		clear(b)
		return len(b), nil
	}
	return c.disk.ReadAt(b, at)
}

func TestEmptyDisks(t *testing.T) {
	for _, size := range []int64{0, 1, 512, mib - 512, mib, mib + 512, 16 * mib, 17*mib - 1, 17 * mib, 17*mib + 512, 32 * mib, 33 * mib, 33*mib + 512, 256 * mib, tib} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { wantContent(t, sparse(t, size), "") })
	}
}

// TestBoundedReads: the largest disks cost no more than those of some GiB.
func TestBoundedReads(t *testing.T) {
	for _, size := range []int64{0, mib, 17 * mib, 64 * mib, gib, tib, 100 * tib, math.MaxInt64} {
		disk := &counted{}
		at, err := firstData(t.Context(), disk, size)
		check(t, err)
		if at != -1 {
			t.Errorf("%d bytes of zeros have data at %d", size, at)
		}
		if disk.reads > 450 || disk.most > mib || disk.bytes > 40*mib {
			t.Errorf("of %d bytes %d are read in %d parts of at most %d", size, disk.bytes, disk.reads, disk.most)
		}
	}
	path := sparse(t, tib)
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	disk := &counted{disk: f}
	if at, err := firstData(t.Context(), disk, tib); at != -1 || err != nil || disk.reads > 450 {
		t.Errorf("a sparse file has data at %d after %d reads, %v", at, disk.reads, err)
	}
}

// TestSpans: a small disk is read whole, and of a large one no part is far from what is read.
func TestSpans(t *testing.T) {
	for _, size := range []int64{0, 1, 512, mib, 32 * mib, 32*mib + 512, 33*mib - 4096, 33 * mib, 34 * mib, 64*mib + 512, gib, tib + 512, 30 * tib, math.MaxInt64} {
		// The step between samples is rounded down, and their offsets are.
		most := int64(0)
		if size > 33*mib {
			most = (size-32*mib)/255 + 3*4*kib
		}
		read := int64(0)
		for _, s := range spans(size) {
			if s.at < 0 || s.at+s.size > size || s.at-read > most {
				t.Fatalf("of %d bytes %d are read at %d, after all until %d", size, s.size, s.at, read)
			}
			read = max(read, s.at+s.size)
		}
		if read != size {
			t.Errorf("of %d bytes the end isn't read: %d", size, read)
		}
	}
}

func TestDataAnywhere(t *testing.T) {
	samples := slices.DeleteFunc(spans(tib), func(s span) bool { return s.size != sampleSpan })
	if len(samples) != sampleCount {
		t.Fatalf("there are %d samples", len(samples))
	}
	first, middle := samples[1], samples[sampleCount/2]
	for name, c := range map[string]struct{ size, at int64 }{
		"the first byte":                       {tib, 0},
		"in a first partition":                 {tib, mib + kib},
		"the last of the beginning":            {tib, 16*mib - 1},
		"a Windows partition":                  {tib, 117 * mib},
		"btrfs behind a boot partition":        {tib, 513*mib + 64*kib},
		"ext4's backup in a first partition":   {tib, 129 * mib},
		"NTFS's file table":                    {tib, 3*gib + mib},
		"a sample":                             {tib, first.at},
		"a sample in the middle":               {tib, middle.at + 1234},
		"a sample's last byte":                 {tib, middle.at + sampleSpan - 1},
		"a copy of btrfs' superblock":          {tib, mib + 64*mib + 64},
		"its second copy":                      {tib, mib + 256*gib},
		"a copy behind a boot partition":       {tib, 513*mib + 64*mib + 4*kib - 1},
		"its second copy there":                {tib, 4097*mib + 256*gib + 64},
		"the end's first byte":                 {tib, tib - 16*mib},
		"a label of ZFS, 8.5 MiB before it":    {tib, tib - 8*mib - 512*kib},
		"RAID before the last MiB":             {tib, tib - mib - 8*kib},
		"the last byte":                        {tib, tib - 1},
		"a tiny disk":                          {512, 511},
		"less than a MiB":                      {mib - 512, mib - 513},
		"a small disk":                         {32*mib - 512, 15*mib + 7},
		"a small disk's last byte":             {32*mib - 512, 32*mib - 513},
		"between the beginning and the end":    {32*mib + 512, 16*mib + 5},
		"between them, on a disk that's whole": {33 * mib, 16*mib + 777777},
	} {
		t.Run(name, func(t *testing.T) {
			disk := sparse(t, c.size)
			write(t, disk, c.at, []byte("data")[:min(4, c.size-c.at)])
			wantContent(t, disk, fmt.Sprintf("data of unknown form at byte %d", c.at))
		})
	}
	t.Run("ones", func(t *testing.T) {
		disk := sparse(t, 32*mib)
		write(t, disk, 3*mib, slices.Repeat([]byte{0xff}, 512))
		wantContent(t, disk, "data of unknown form at byte 3145728")
	})
}

// TestLostPartitionTable: the file systems in the partitions are still there.
func TestLostPartitionTable(t *testing.T) {
	for name, c := range map[string]struct{ size, start int64 }{
		"first partition":  {300 * mib, mib},
		"second partition": {2 * gib, 513 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			disk := sparse(t, c.size)
			tool(t, "mkfs.ext4", "-q", "-E", fmt.Sprintf("offset=%d", c.start), disk, fmt.Sprintf("%dk", (c.size-c.start-mib)/kib))
			// Its superblock begins at 1 KiB, with the number of inodes.
			f, err := os.Open(disk)
			check(t, err)
			defer f.Close()
			if at, err := firstData(t.Context(), f, c.size); err != nil || at < c.start+kib || at > c.start+kib+3 {
				t.Errorf("there is data at %d (%v), want it at %d", at, err, c.start+kib)
			}
		})
	}
}
