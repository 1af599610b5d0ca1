package btrfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestFirstBlock(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 256<<20))
	if out, err := exec.CommandContext(t.Context(), "mkfs.btrfs", "-q", "--mixed", "-m", "single", "-d", "single", image).CombinedOutput(); err != nil {
		t.Fatalf("cannot make a btrfs: %v: %s", err, out)
	}
	f, err := os.Open(image)
	check(t, err)
	defer f.Close()
	read := func(at int64) []byte {
		b := make([]byte, BlockSize)
		_, err := f.ReadAt(b, at)
		check(t, err)
		return b
	}
	// The second of them is written once, and stays where it is.
	const second = 1<<20 + BlockSize
	block := read(second)
	if !FirstBlock(block, second) {
		t.Errorf("a first block isn't taken for one: %x", block[:0x80])
	}
	for name, c := range map[string]struct {
		block []byte
		at    int64
	}{
		"elsewhere":             {block, second + BlockSize},
		"a later generation":    {read(5 << 20), 5 << 20},
		"the superblock":        {read(superOffset), superOffset},
		"zeros":                 {make([]byte, BlockSize), second},
		"a part of one":         {block[:512], second},
		"more than one":         {append(slices.Clone(block), 0), second},
		"a damaged one":         {append(slices.Clone(block[:BlockSize-1]), block[BlockSize-1]^1), second},
		"nothing":               {nil, second},
		"data in place of one":  {slices.Repeat([]byte{7}, BlockSize), second},
		"at the disk's start":   {block, 0},
		"behind the first ones": {block, second + 64<<10},
	} {
		if FirstBlock(c.block, c.at) {
			t.Errorf("%s: taken for a first block", name)
		}
	}
}
