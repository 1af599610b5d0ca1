// Package registry lists all types of croft's resources, and makes the node's state of their definitions known. A new
// type is one file in a package of resources and one line here.
package registry

import (
	"sync"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/resource/typed"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// Type is one type of resources.
type Type struct {
	meta.ResourceWithRD
	// encode makes the type's specs known to the encoding of resources on the wire and on the disk.
	encode func() error
}

func typeOf[S typed.DeepCopyable[S], E typed.Extension](r *typed.Resource[S, E]) Type {
	return Type{r, func() error { return protobuf.RegisterDynamic(r.ResourceDefinition().Type, r) }}
}

// Types returns all types.
func Types() []Type {
	return []Type{
		typeOf(&host.NodeConfig{}), typeOf(&host.ModuleConfig{}), typeOf(&host.Host{}), typeOf(&host.Clock{}), typeOf(&host.Module{}),
		typeOf(&host.Explorer{}), typeOf(&host.Store{}), typeOf(&host.Capacity{}), typeOf(&host.Readiness{}), typeOf(&host.Ceiling{}),
		typeOf(&parts.Pool{}), typeOf(&parts.Network{}), typeOf(&parts.Container{}), typeOf(&parts.Image{}),
		typeOf(&parts.ZDBServer{}), typeOf(&parts.Stream{}), typeOf(&parts.VirtualMachine{}),
		typeOf(&work.Workload{}), typeOf(&work.Orphan{}), typeOf(&work.Order{}), typeOf(&work.Event{}), typeOf(&work.Hook{}), typeOf(&work.HookRun{}),
	}
}

// Register makes all types known to the encoding of resources, once a process: the library keeps them in a table of
// the process.
func Register() error { return registered() }

var registered = sync.OnceValue(func() error {
	for _, t := range Types() {
		if err := t.encode(); err != nil {
			return errors.Wrapf(err, "cannot register the type %s", t.ResourceDefinition().Type)
		}
	}
	return nil
})
