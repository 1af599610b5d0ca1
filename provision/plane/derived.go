package plane

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/transform"
	"go.uber.org/zap"

	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// Readiness is the controller that derives the node's readiness from its other resources.
func Readiness(judge func(ctx context.Context, r controller.Reader) (host.ReadinessSpec, error)) controller.Controller {
	return transform.NewController(transform.Settings[*host.NodeConfig, *host.Readiness]{
		Name:            "Readiness",
		MapMetadataFunc: func(*host.NodeConfig) *host.Readiness { return host.NewReadiness(host.ReadinessSpec{}) },
		TransformFunc: func(ctx context.Context, r controller.Reader, _ *zap.Logger, _ *host.NodeConfig, out *host.Readiness) (err error) {
			*out.TypedSpec(), err = judge(ctx, r)
			return err
		},
	}, transform.WithExtraInputs(
		weak(&host.Store{}), weak(&host.Clock{}), weak(&host.Explorer{}), weak(&host.Module{}), weak(&parts.Pool{}), weak(&work.Orphan{}),
		weak(&parts.ZDBServer{}), weak(&parts.VirtualMachine{}),
	))
}

// Capacity is the controller that derives the room for workloads from the machine, its pools and the store.
func Capacity(room func(ctx context.Context, machine host.HostSpec) (host.CapacitySpec, error)) controller.Controller {
	return transform.NewController(transform.Settings[*host.Host, *host.Capacity]{
		Name:            "Capacity",
		MapMetadataFunc: func(*host.Host) *host.Capacity { return host.NewCapacity(host.CapacitySpec{}) },
		TransformFunc: func(ctx context.Context, _ controller.Reader, _ *zap.Logger, machine *host.Host, out *host.Capacity) (err error) {
			*out.TypedSpec(), err = room(ctx, *machine.TypedSpec())
			return err
		},
	}, transform.WithExtraInputs(weak(&parts.Pool{}), weak(&host.Store{})))
}
