package daemon

import (
	"context"
	"time"

	debugmodule "github.com/croft-edge/croft/cmd/croftd/internal/module/debug"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/supervise"
)

// startForward sends this process's log lines to the debug module, unless that runs in this process. It
// starts first and stops last, so that no line is lost.
func (d *daemon) startForward(parts *supervise.Group) {
	if d.Tap == nil || d.runs(debugmodule.Name) {
		return
	}
	quiet := d.host().Quiet().Log
	client := bus.NewClient(d.bus, bus.Options{Log: quiet})
	forward := debug.NewForward(d.Tap, d.Process, stubs.NewLogLinesStub(client), quiet)
	parts.Start(supervise.Part{Name: "log lines", Again: true, Within: 10 * time.Second, Run: func(ctx context.Context) error {
		err := forward.Run(ctx)
		if ctx.Err() == nil {
			return err // it is run again
		}
		if closing := client.Close(); err == nil {
			err = closing
		}
		return err
	}})
}
