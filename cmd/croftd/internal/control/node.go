// Package control is the operator's interface to a running node: HTTP on a unix socket that only root
// can open. Its requests are the machine owner's decisions; the node serves it, and croftd's other
// commands use it.
package control

import (
	"context"

	"github.com/croft-edge/croft/pkg/nodestatus"
)

// Node is the running node as the control socket needs it.
type Node interface {
	// Status is the node's current status.
	Status(ctx context.Context) (nodestatus.Status, error)
	// Evict ends a workload by the machine owner's decision. NotExist when there is no workload of that
	// ID.
	Evict(ctx context.Context, id string) error
	// AcceptOlder starts to accept reservations from before the store's birth.
	AcceptOlder(ctx context.Context) error
	// RefuseOlder refuses them again. Refused while the birth has no date.
	RefuseOlder(ctx context.Context) error
	// Restored gives the store a new birth, after it was restored from a backup.
	Restored(ctx context.Context) error
}
