package flist_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"golang.org/x/crypto/blake2b"

	"github.com/croft-edge/croft/internal/testing/flisttest"
	"github.com/croft-edge/croft/pkg/flist"
)

// sealed is a block of packed bytes, whatever they unpack to.
func sealed(t testing.TB, key flist.Hash, packed []byte) (flist.Block, []byte) {
	t.Helper()
	c, err := aes.NewCipher(key[:])
	must(t, err)
	seal, err := cipher.NewGCM(c)
	must(t, err)
	stored := seal.Seal(nil, key[:12], packed, nil)
	return flist.Block{ID: blake2b.Sum256(stored), Key: key}, stored
}

func TestBlocks(t *testing.T) {
	random := make([]byte, flist.BlockSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for name, plain := range map[string][]byte{"a byte": {1}, "zeros": make([]byte, flist.BlockSize), "what doesn't pack": random} {
		b, stored, err := flisttest.Seal(plain)
		must(t, err)
		got, err := b.Decode(stored, len(plain))
		if err != nil || !bytes.Equal(got, plain) || !b.Is(plain) || len(stored) > flist.MostStored(len(plain)) {
			t.Errorf("%s: %d bytes of %d stored, %v", name, len(got), len(stored), err)
		}
		for what, size := range map[string]int{"less": len(plain) - 1, "more": len(plain) + 1} {
			if got, err := b.Decode(stored, size); err == nil || got != nil {
				t.Errorf("%s: %s than it has: %d bytes, %v", name, what, len(got), err)
			}
		}
	}
}

// Nothing of a block that isn't what it should be comes out.
func TestWrongBlocks(t *testing.T) {
	plain := []byte(strings.Repeat("some content ", 100))
	good, stored, err := flisttest.Seal(plain)
	must(t, err)
	changed := slices.Clone(stored)
	changed[5] ^= 1
	key := good.Key
	bomb := append(binary.AppendUvarint(nil, 1<<31), snappy.Encode(nil, plain)...)
	for name, c := range map[string]struct {
		make func() (flist.Block, []byte)
		says string
	}{
		"a changed byte":  {func() (flist.Block, []byte) { return good, changed }, "aren't those of its ID"},
		"nothing":         {func() (flist.Block, []byte) { return good, nil }, "aren't those of its ID"},
		"another key":     {func() (flist.Block, []byte) { return flist.Block{ID: good.ID, Key: flist.Hash{1}}, stored }, "doesn't decrypt"},
		"an ID of damage": {func() (flist.Block, []byte) { return flist.Block{ID: blake2b.Sum256(changed), Key: key}, changed }, "doesn't decrypt"},
		"no seal":         {func() (flist.Block, []byte) { return flist.Block{ID: blake2b.Sum256(nil), Key: key}, nil }, "doesn't decrypt"},
		"no length":       {func() (flist.Block, []byte) { return sealed(t, key, nil) }, "it unpacks to"},
		"a bomb":          {func() (flist.Block, []byte) { return sealed(t, key, bomb) }, "it unpacks to"},
		"no snappy": {func() (flist.Block, []byte) {
			return sealed(t, key, append(binary.AppendUvarint(nil, uint64(len(plain))), 0xff, 0xff))
		}, "can't be unpacked"},
		"other content": {func() (flist.Block, []byte) {
			return sealed(t, key, snappy.Encode(nil, []byte(strings.Repeat("some CONTENT ", 100))))
		}, "isn't that of its key"},
	} {
		b, stored := c.make()
		if got, err := b.Decode(stored, len(plain)); err == nil || got != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d bytes, %v, want %q", name, len(got), err, c.says)
		}
	}
	for _, size := range []int{-1, 0, flist.BlockSize + 1} {
		if _, err := good.Decode(stored, size); err == nil {
			t.Errorf("a block of %d bytes was decoded", size)
		}
	}
}

// FuzzBlock: whatever a store and a flist say, a block is what its key says, or an error.
func FuzzBlock(f *testing.F) {
	plain := []byte("some content, some content, some content")
	f.Add(snappy.Encode(nil, plain), len(plain))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1<<31)
	f.Add([]byte{0x80, 0x80, 0x20, 0xfe, 0x01, 0x00}, flist.BlockSize)
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		key := flist.Hash(blake2b.Sum256(packed))
		if unpacked, err := snappy.DecodedLen(packed); err == nil && unpacked <= flist.BlockSize {
			if plain, err := snappy.Decode(nil, packed); err == nil {
				key = blake2b.Sum256(plain)
			}
		}
		b, stored := sealed(t, key, packed)
		got, err := b.Decode(stored, size)
		if err == nil && (len(got) != size || !b.Is(got)) || err != nil && got != nil {
			t.Errorf("%d bytes, want %d: %v", len(got), size, err)
		}
		if _, err := b.Decode(packed, size); err == nil {
			t.Error("bytes without a seal are a block")
		}
	})
}
