package unpack

import (
	"bufio"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// mostWindow is the memory that a zstd layer may ask for, as zstd's own tools allow
// it; readAt how much is read at once.
const (
	mostWindow = 128 << 20
	readAt     = 256 << 10
)

// decompress reads a layer by its magic number, whatever its media type.
func decompress(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, readAt)
	magic, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		return gzip.NewReader(buffered)
	case string(magic) == "\x28\xb5\x2f\xfd":
		return zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
	}
	return buffered, nil
}
