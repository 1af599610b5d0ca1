package store

import "github.com/croft-edge/croft/pkg/limit"

// nodeDocument is the document of one node.
var nodeDocument = limit.Limit{Name: "explorer-node-document", Per: "node", Each: 16 << 10, Unit: limit.Bytes}

// stored is the size of a user's reservations and of a node's results. The kept part of
// the total is for results: a node can always report.
var stored = limit.Limit{Name: "explorer-stored", Per: "user or node", Each: 64 << 20, Total: 8 << 30, Kept: 1 << 30, Unit: limit.Bytes}

// DefaultStored is the total of stored, in bytes.
const DefaultStored = 8 << 30

// disk is the free space that new reservations, nodes and farms leave to results, deletions and
// heartbeats; on a small disk it is a tenth.
var disk = limit.Limit{Name: "explorer-disk", Per: "disk", Kept: 256 << 20, Unit: limit.Bytes}

// The number of nodes and farms, and of stores that a node may have had.
var (
	nodes  = limit.Limit{Name: "explorer-nodes", Per: "explorer", Total: 50000}
	farms  = limit.Limit{Name: "explorer-farms", Per: "key", Each: 16, Total: 10000}
	births = limit.Limit{Name: "explorer-births", Per: "node", Each: 1000}
)

// rowBytes is a reservation's size beside its body and result: its columns, indexes, deletion and
// renewal.
const rowBytes = 1 << 10
