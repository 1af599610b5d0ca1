package feedback

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// Outbox is the part of the store that feedback needs. store.Records is one.
type Outbox interface {
	// Undelivered returns the records whose result the explorer doesn't have, oldest first.
	Undelivered() ([]store.Record, error)
	// Acknowledge notes in one write that the explorer has those results.
	Acknowledge(receipts ...store.Receipt) error
}

// Signer signs with the node's key. The identity module's stub is one.
type Signer interface {
	Sign(ctx context.Context, message []byte) ([]byte, error)
}

// Sender sends a signed result to the explorer, which accepts the same one twice.
// The explorer's client is one. Errors that are Invalid, Refused, Exist or
// NotExist are the explorer's final word about this result.
type Sender interface {
	PutResult(ctx context.Context, r *workload.Result) error
}
