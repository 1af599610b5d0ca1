package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

const (
	// garbagePercent is how much the heap may grow before a collection, unless GOGC is set: nearly all
	// of the heap is long-lived tables.
	garbagePercent = 25
	// loopEnds is how long the last round and the closing of all connections may take.
	loopEnds = 30 * time.Second
)

// serve opens the data, serves it until ctx is done, and closes it.
func serve(c *cli.Context) error {
	s, err := read(c)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	log := zerolog.New(os.Stderr).Level(s.level).With().Timestamp().Logger()
	s.server.Log, s.loop.Log = log, log
	s.server.Stop = cancel
	data, err := zdb.New(s.server)
	if err != nil {
		return err
	}
	s.loop.Handler = data
	if err := listenAndRun(ctx, s, data, c.App.Writer); err != nil {
		// If the loop has failed, the state in memory is unknown: the data on disk is left as it is.
		return err
	}
	log.Info().Msg("stopping")
	return data.Close()
}

// listenAndRun serves until ctx is done.
func listenAndRun(ctx context.Context, s settings, data *zdb.Server, out io.Writer) error {
	l, err := loop.New(s.loop)
	if err != nil {
		return err
	}
	data.Attach(l)
	parts := supervise.New(s.loop.Log)
	parts.Start(supervise.Part{Name: "loop", Run: l.Run, Within: loopEnds})
	doors, err := s.open(ctx, l)
	if err == nil {
		err = s.beside(ctx, parts, l, data, &doors)
	}
	if err != nil {
		stopped := parts.Stop()
		doors.remove(s.loop.Log)
		if stopped == nil {
			stopped = data.Close()
		}
		if stopped != nil {
			s.loop.Log.Error().Err(stopped).Msg("cannot stop well")
		}
		return err
	}
	for _, name := range doors.names {
		fmt.Fprintln(out, "listening on", name)
	}
	fmt.Fprintln(out, "ready")
	err = parts.Wait(ctx)
	doors.remove(s.loop.Log)
	return err
}

// beside starts the other services: handover and metrics.
func (s settings) beside(ctx context.Context, parts *supervise.Group, l *loop.Loop, data *zdb.Server, doors *doors) error {
	if s.handover != "" {
		h, err := handover.Listen(handover.ServerConfig{
			Path: s.handover, Log: s.loop.Log,
			Take:      func(f *os.File) error { return l.Listen(f, false) },
			Listeners: func() ([]*os.File, error) { return l.Listeners(false) },
		})
		if err != nil {
			return err
		}
		doors.names = append(doors.names, "handover "+s.handover)
		parts.Start(supervise.Part{Name: "handover", Run: h.Run})
	}
	if s.metricsAddr != "" {
		m, err := listenMetrics(ctx, s.metricsAddr, &collector{loop: l, server: data})
		if err != nil {
			return errors.Wrapf(err, "cannot serve --metrics %s", s.metricsAddr)
		}
		doors.names = append(doors.names, "metrics "+m.listener.Addr().String())
		parts.Start(supervise.Part{Name: "metrics", Run: m.run})
	}
	return nil
}
