// Package debug describes the debug module: streams of the node's log lines.
package debug

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
)

// Name is the module's name among the node's processes.
const Name = "debug"

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: Name, Bus: node.DebugModule, Summary: "streams of the node's log lines",
		Support: true,
		Objects: []zbus.ObjectID{bus.Object(node.DebugObject, node.DebugVersion), bus.Object(node.LogLinesObject, node.LogLinesVersion)},
		Open:    open,
		Ask: func(ctx context.Context, client zbus.Client, _ *host.ModuleSpec) error {
			_, err := stubs.NewDebugStub(client).List(ctx)
			return err
		},
		Parts: []module.Part{{Of: &parts.Stream{}, Every: 5 * time.Second, List: list}},
		Table: writeStreams,
	}
}

func list(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	all, err := stubs.NewDebugStub(client).List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]resource.Resource, 0, len(all))
	for _, d := range all {
		out = append(out, parts.NewStream(d))
	}
	return out, nil
}

func open(_ context.Context, h module.Host) (*module.Instance, error) {
	m, err := debug.New(debug.Config{Dialer: h.Dialer, Tap: h.Tap, Log: h.Log})
	if err != nil {
		return nil, err
	}
	return &module.Instance{
		Objects: []module.Object{
			module.Serves(node.DebugObject, node.DebugVersion, stubs.DebugMethods(m)),
			module.Serves(node.LogLinesObject, node.LogLinesVersion, stubs.LogLinesMethods(m)),
		},
		Close: func(context.Context) error {
			m.Close()
			return nil
		},
	}, nil
}

// writeStreams prints the destinations of the node's log lines.
func writeStreams(row module.Row, s nodestatus.Status, _ time.Time) {
	if len(s.Streams) == 0 {
		return
	}
	row("")
	row("STREAM", "TO", "CHANNEL", "CONNECTED", "SENT", "DROPPED", "USER", "CAUSE")
	for _, x := range s.Streams {
		row(x.ID, net.JoinHostPort(x.Host, fmt.Sprint(x.Port)), x.Channel, cell.YesNo(x.Connected), fmt.Sprint(x.Sent), fmt.Sprint(x.Dropped),
			cell.ID(x.User), cmp.Or(x.LastError, "-"))
	}
}
