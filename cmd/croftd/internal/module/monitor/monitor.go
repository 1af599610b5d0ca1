// Package monitor describes the monitor module: facts about the machine.
package monitor

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/network"
	"github.com/croft-edge/croft/modules/monitor"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "monitor", Bus: node.MonitorModule, Summary: "the machine's facts and load",
		Objects: []zbus.ObjectID{
			bus.Object(node.SystemObject, node.SystemVersion),
			bus.Object(node.HostObject, node.HostVersion),
			bus.Object(node.SystemObject, node.SeedSystemVersion),
			bus.Object(node.HostObject, node.SeedHostVersion),
		},
		Open: open,
		Ask: func(ctx context.Context, client zbus.Client, _ *host.ModuleSpec) error {
			_, err := stubs.NewHostMonitorStub(client).Info(ctx)
			return err
		},
	}
}

func open(_ context.Context, h module.Host) (*module.Instance, error) {
	m, err := monitor.New(moduleConfig(h.Config, h.Log))
	if err != nil {
		return nil, err
	}
	return &module.Instance{Objects: []module.Object{
		module.Serves(node.SystemObject, node.SystemVersion, stubs.SystemMonitorMethods(m.System())),
		module.Serves(node.HostObject, node.HostVersion, stubs.HostMonitorMethods(m.Host())),
		module.Serves(node.SystemObject, node.SeedSystemVersion, stubs.SeedSystemMonitorMethods(m.SeedSystem())),
		module.Serves(node.HostObject, node.SeedHostVersion, stubs.SeedHostMonitorMethods(m.SeedHost())),
	}}, nil
}

// moduleConfig is the module's configuration.
func moduleConfig(c config.Config, log zerolog.Logger) monitor.Config {
	return monitor.Config{OwnPrefixes: append(monitor.DefaultOwnPrefixes(), network.LinkPrefixes(c)...), Log: log}
}
