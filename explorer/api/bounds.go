package api

import "github.com/croft-edge/croft/pkg/limit"

// MaxBody is the largest body of a document, in bytes: of a reservation, a
// deletion, a renewal. Others have their own limit below.
const MaxBody = 1 << 20 // documentBody.Each

// MaxDepth is how deep JSON may be nested, maxNameLength how long the name of a member may be
// in bytes. Further limits are pkg/strictjson's.
const (
	MaxDepth      = 32
	maxNameLength = 256
)

// How much new data one source may bring a day.
var (
	newBytes = limit.Limit{Name: "explorer-new-bytes", Per: "source and day", Each: 1 << 30, Unit: limit.Bytes}
	newNodes = limit.Limit{Name: "explorer-new-nodes", Per: "source and day", Each: 256}
	newFarms = limit.Limit{Name: "explorer-new-farms", Per: "source and day", Each: 16}
)

// bodyBytes is the memory that bodies hold while they arrive and are handled: a body's signature can be checked
// only once it is whole. Bodies of up to smallBody don't count, so that large, unfinished bodies don't keep
// usual requests out; connections are limited too.
var bodyBytes = limit.Limit{Name: "explorer-bodies", Per: "source", Each: 16 << 20, Total: 128 << 20, Unit: limit.Bytes}

const smallBody = 4 << 10

// The largest body of each kind of request.
var (
	documentBody = limit.Limit{Name: "explorer-document-body", Per: "document", Each: 1 << 20, Unit: limit.Bytes}
	resultBody   = limit.Limit{Name: "explorer-result-body", Per: "result", Each: 512 << 10, Unit: limit.Bytes}
	nodeBody     = limit.Limit{Name: "explorer-node-body", Per: "registration", Each: 16 << 10, Unit: limit.Bytes}
	farmBody     = limit.Limit{Name: "explorer-farm-body", Per: "farm or grant", Each: 4 << 10, Unit: limit.Bytes}
)
