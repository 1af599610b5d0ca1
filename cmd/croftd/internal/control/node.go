// Package control is the operator's door to a running node: HTTP on a unix
// socket that only root can open. What comes through it is the machine owner's
// decision; it is served by the node and used by croftd's other commands.
package control

import (
	"context"

	"github.com/croft-edge/croft/pkg/nodestatus"
)

// Node is what the control socket needs of the running node.
type Node interface {
	// Status is what the node knows, now.
	Status(ctx context.Context) (nodestatus.Status, error)
	// Evict ends a workload by the machine owner's decision. NotExist when
	// there is none of that ID.
	Evict(ctx context.Context, id string) error
	// AcceptOlder accepts reservations from before the store's birth from now on.
	AcceptOlder(ctx context.Context) error
	// RefuseOlder refuses them again. Refused while the birth has no date.
	RefuseOlder(ctx context.Context) error
	// Restored gives the store a new birth: it was put back from a backup.
	Restored(ctx context.Context) error
}
