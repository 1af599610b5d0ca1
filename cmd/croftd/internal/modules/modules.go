// Package modules is the list of the node's modules.
package modules

import (
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/container"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/debug"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/identity"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/monitor"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/network"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/storage"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/vm"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/zdb"
)

// All are the node's modules, in the order in which they start and in which documents and
// statuses show them.
func All() []module.Descriptor {
	return []module.Descriptor{
		identity.Descriptor(),
		storage.Descriptor(),
		monitor.Descriptor(),
		debug.Descriptor(),
		network.Descriptor(),
		container.Descriptor(),
		zdb.Descriptor(),
		vm.Descriptor(),
	}
}
