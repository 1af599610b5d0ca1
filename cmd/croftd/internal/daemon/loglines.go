package daemon

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/supervise"
)

// startLogLines starts the debug module, or what brings this process's log
// lines to it. It comes first, so that it hears of all that starts and stops.
func (d *daemon) startLogLines(parts *supervise.Group) error {
	if d.Shape.has(Debug) {
		return d.startDebug(parts)
	}
	if d.Tap == nil {
		return nil
	}
	client := bus.NewClient(d.bus, d.quietOptions())
	forward := debug.NewForward(d.Tap, string(d.Shape), stubs.NewLogLinesStub(client), d.quiet())
	parts.Start(supervise.Part{Name: "log lines", Within: 10 * time.Second, Run: func(ctx context.Context) error {
		err := forward.Run(ctx)
		if closing := client.Close(); err == nil {
			err = closing
		}
		return err
	}})
	return nil
}

// startDebug serves the streams of log lines on the bus.
func (d *daemon) startDebug(parts *supervise.Group) error {
	m, err := debug.New(debug.Config{Dialer: d.dialer, Tap: d.Tap, Log: d.quiet()})
	if err != nil {
		return err
	}
	server, err := bus.NewServer(d.bus, node.DebugModule, d.quietOptions())
	if err != nil {
		return err
	}
	if err := bus.Register[node.Debug](server, bus.Object(node.DebugObject, node.DebugVersion), m); err != nil {
		return err
	}
	if err := bus.Register[node.LogLines](server, bus.Object(node.LogLinesObject, node.LogLinesVersion), m); err != nil {
		return err
	}
	parts.Start(supervise.Part{Name: "debug", Within: moduleStop, Run: func(ctx context.Context) error {
		defer m.Close()
		return server.Run(ctx)
	}})
	return nil
}

// quiet is the logger of what carries log lines: its own lines are carried
// nowhere, or a stream that fails would feed itself.
func (d *daemon) quiet() zerolog.Logger {
	if d.Tap == nil {
		return d.Log
	}
	return d.Log.Output(d.Tap.Past())
}

func (d *daemon) quietOptions() bus.Options {
	options := d.options
	options.Log = d.quiet()
	return options
}
