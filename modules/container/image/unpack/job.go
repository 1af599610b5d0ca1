package unpack

import (
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// The IDs on the node that unpacking processes have: those below the containers'.
const (
	FirstID = 0x6fff0000
	IDs     = 65536
	// nobody is the user of a process within its namespace, and the owner of files with
	// an ID that no container has.
	nobody = IDs - 2
)

// Memory bounds one process: 1,000,000 files take some 300 bytes each,
// the window of zstd takes 128 MiB.
var Memory = limit.Limit{Name: "image-unpack-memory", Per: "layer", Each: 512 << 20, Unit: limit.Bytes}

// Time is how many seconds of processor time one layer may take.
var Time = limit.Limit{Name: "image-unpack-seconds", Per: "layer", Each: 900}

// Opaque is how many folders of one layer may hide those below, and mostOpaque how
// many bytes their names may have.
var Opaque = limit.Limit{Name: "image-opaque-folders", Per: "layer", Each: 10_000}

const mostOpaque = 1 << 20

// mostAnswer is how many bytes of an answer are read.
const mostAnswer = 4 << 20

// Bounds are how much an image may unpack to, and how much of that layers before
// this one have taken.
type Bounds struct {
	Bytes, Files         int64
	MostBytes, MostFiles int64
	// Room is how many bytes there are on the disk for this layer.
	Room int64
}

// reads is how often a process may read the bytes of its layer: to count its files, and to unpack.
const reads = 2

// order is the task of a process.
type order struct {
	Bounds
	// Packed is how many bytes the layer has, packed.
	Packed int64
}

// Result describes an unpacked layer: the digest of the tar, and Bounds.Bytes and
// Bounds.Files with this layer's.
type Result struct {
	Diff         digest.Digest
	Bytes, Files int64
}

// answer is sent by a process at its end: a Result, or an error.
type answer struct {
	Result
	// Opaque are the folders of the layer that hide those below.
	Opaque []string
	Kind   string
	Error  string
	// Limit is whether Opaque's was reached.
	Limit bool
}

// kinds are those of errors that a process may answer with.
func kinds() map[string]node.Kind {
	return map[string]node.Kind{
		"invalid": node.Invalid, "refused": node.Refused, "nospace": node.NoSpace, "internal": node.Internal,
	}
}

// failed is the answer for an error.
func failed(err error) answer {
	a := answer{Kind: "internal", Error: err.Error(), Limit: errors.Is(err, errOpaque)}
	for name, kind := range kinds() {
		if errors.Is(err, kind) {
			a.Kind = name
		}
	}
	return a
}

// errOpaque is why a layer that reaches Opaque is refused.
var errOpaque = errors.New("too many folders, or too long names of folders, that hide those of a layer below")

func invalid(format string, args ...any) error {
	return node.Errorf(node.Invalid, "cannot use the image: "+format, args...)
}

func refused(format string, args ...any) error {
	return node.Errorf(node.Refused, "cannot use the image: "+format, args...)
}

// longest bounds operations that should end at once.
const longest = 30 * time.Second
