package main

import (
	"context"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/watchdog"
	"github.com/croft-edge/croft/internal/guest"
)

const (
	// petEvery is how often the watchdog is told that the machine runs: a fraction of its time.
	petEvery = watchdog.Timeout * time.Second / 6
	// askEvery is how often the engine is asked whether it turns.
	askEvery = 10 * time.Second
)

// startWatchdog has the hardware start the machine again when it hangs.
func (m *machine) startWatchdog(ctx context.Context) {
	device, err := watchdog.Open("/dev", "/sys/class/watchdog", m.modules.Load)
	if err != nil {
		m.wrong("watchdog", err)
		return
	}
	m.say("watchdog: %s, %d s", device.Name(), watchdog.Timeout)
	// An orderly end takes longer than the watchdog's time.
	m.power.atEnd(func() {
		if err := device.Close(); err != nil {
			m.say("%v", err)
		}
	})
	m.keep(ctx, "watchdog", func(ctx context.Context) error {
		for pause(ctx, petEvery) {
			if err := device.Pet(); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// watch watches over the engine, until ctx is done.
func (m *machine) watch(ctx context.Context) {
	var judge watchdog.Judge
	for pause(ctx, askEvery) {
		s := m.runner.Service(engine)
		if s == nil {
			continue // the node stops
		}
		state := s.State()
		attempt, cancel := context.WithTimeout(ctx, askEvery)
		err := engineTurns(attempt)
		cancel()
		now, uptime := time.Now(), time.Duration(guest.UptimeSeconds()*float64(time.Second))
		var action watchdog.Action
		judge, action = judge.See(now, uptime, state.PID, err == nil)
		if stuck := judge.StuckFor(now); stuck > askEvery {
			m.wrong("engine", errors.Wrapf(err, "it doesn't turn for %s", stuck.Round(time.Second)))
		} else {
			m.wrong("engine", nil)
		}
		switch action {
		case watchdog.Nothing:
		case watchdog.RestartEngine:
			m.say("the engine is stuck: its process is ended, and starts again")
			_ = syscall.Kill(state.PID, syscall.SIGKILL) // it may have ended just now
		case watchdog.Reboot:
			m.power.end("the engine is stuck: the machine starts again", unix.LINUX_REBOOT_CMD_RESTART)
		}
	}
}
