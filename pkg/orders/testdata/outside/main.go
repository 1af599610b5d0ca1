// Command outside evicts every workload that has failed to be made again and again: it watches the node's state as any
// COSI client may, and gives an order.
package main

import (
	"context"
	"log"
	"os"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"github.com/croft-edge/croft/pkg/orders"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, socket string) error {
	if err := registry.Register(); err != nil {
		return err
	}
	node, err := statesocket.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer node.Close()
	changes := make(chan state.Event)
	kind := resource.NewMetadata("node", "Workloads.croft", "", resource.VersionUndefined)
	if err := node.WatchKind(ctx, kind, changes, state.WithBootstrapContents(true)); err != nil {
		return err
	}
	for change := range changes {
		if change.Type == state.Errored {
			return change.Error
		}
		workload, ok := change.Resource.(*work.Workload)
		if !ok || workload.TypedSpec().Attempts < 10 || workload.TypedSpec().Phase != "retry" {
			continue
		}
		id := workload.Metadata().ID()
		if _, err := orders.Give(ctx, node, work.OrderSpec{Kind: work.Evict, Target: id}); err != nil {
			return err
		}
		log.Printf("evicted %s", id)
	}
	return nil
}
