package main

import (
	"context"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/clock"
	"github.com/croft-edge/croft/bootstrap/node/init/network"
	"github.com/croft-edge/croft/internal/guest/service"
)

const (
	chronyRun   = "/run/chrony"
	chronyState = "/var/lib/init/chrony"
	// lastTimeFile has the last time that was certainly right.
	lastTimeFile = "/var/lib/init/time"
)

// startClock has the machine's clock kept right. net is nil for a machine without a network.
func (m *machine) startClock(ctx context.Context, net *network.Network) {
	past := clock.NewPast(lastTimeFile, imageBuilt(releaseFile))
	raised, err := past.Raise()
	m.wrong("clock", err)
	if raised {
		m.say("the clock was years behind: it is set to the last time that has certainly passed, less a day, and isn't trusted")
	}
	m.power.atEnd(func() { m.wrong("clock", past.Store()) })
	m.keep(ctx, "clock", func(ctx context.Context) error { return past.Keep(ctx, m.logger()) })
	chrony, err := clock.New(clock.Config{Servers: m.settings.Node.TimeServers, Run: chronyRun, State: chronyState})
	if err != nil {
		m.wrong("time servers", err)
		return
	}
	command, err := chrony.Prepare()
	if err != nil {
		m.wrong("time servers", err)
		return
	}
	if _, err := m.runner.Start(service.Spec{Name: "chrony", Command: command, Before: func() error { _, err := chrony.Prepare(); return err }}); err != nil {
		m.wrong("time servers", err)
		return
	}
	if net == nil {
		return
	}
	m.keep(ctx, "time servers", func(ctx context.Context) error {
		for {
			next := m.networks.next()
			m.wrong("time servers", errors.WithMessage(chrony.Use(ctx, net.State().NTP), "cannot ask the network's time servers"))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-next:
			}
		}
	})
}

// imageBuilt is the date of croft's programs in the image; zero if it isn't known.
func imageBuilt(file string) time.Time {
	seconds, err := strconv.ParseInt(release(file, "BUILT"), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
