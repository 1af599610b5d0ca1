package seal

import (
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/provision/persist"
)

// packer compresses one text at a time. It keeps its memory for the next.
type packer struct {
	mu     sync.Mutex
	encode *zstd.Encoder
	decode *zstd.Decoder
}

// window is how far back the compression looks, in bytes: records are small.
const window = 128 << 10

func (p *packer) pack(plain []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.encode == nil {
		encode, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, errors.Wrap(err, "cannot compress")
		}
		p.encode = encode
	}
	return p.encode.EncodeAll(plain, nil), nil
}

// unpack refuses more than an object may have, whatever it was compressed to.
func (p *packer) unpack(packed []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decode == nil {
		decode, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(persist.MaxBody), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, errors.Wrap(err, "cannot decompress")
		}
		p.decode = decode
	}
	return p.decode.DecodeAll(packed, nil)
}
