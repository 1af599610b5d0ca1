package userapi

import (
	"context"
	"net"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// Keeper keeps a tunnel open, through which users reach a node without an address of its own.
type Keeper struct {
	// Open opens the connection that carries the tunnel.
	Open func(ctx context.Context) (net.Conn, error)
	// Take serves a connection from the tunnel; it must not block long.
	Take func(net.Conn)
	// Pause is the wait after the first failure; it doubles up to MaxPause.
	Pause, MaxPause time.Duration
	Log             zerolog.Logger
}

// steady is how long a tunnel must last before the pause is reset: a tunnel that is replaced at once
// isn't reopened at once.
const steady = 30 * time.Second

// Run keeps the tunnel open until ctx is done. It never fails: everything else works without a tunnel.
func (k Keeper) Run(ctx context.Context) error {
	failures := 0
	for {
		began := time.Now()
		err := k.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > steady {
			failures = 0
		}
		e := k.Log.Debug()
		// A new node isn't registered yet, and gets no tunnel.
		if failures == 0 && node.KindOf(err) != node.NotExist {
			e = k.Log.Warn()
		}
		e.Err(err).Msg("the tunnel to the explorer isn't open: tried again")
		pause := min(k.Pause<<min(failures, 16), k.MaxPause)
		failures++
		timer := time.NewTimer(backoff.Around(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// once opens the tunnel and accepts its connections until it ends.
func (k Keeper) once(ctx context.Context) error {
	conn, err := k.Open(ctx)
	if err != nil {
		return err
	}
	tunnel, err := nodeapi.NodeTunnel(conn)
	if err != nil {
		_ = conn.Close()
		return err
	}
	defer tunnel.Close()
	defer context.AfterFunc(ctx, func() { _ = tunnel.Close() })()
	k.Log.Info().Msg("the tunnel to the explorer is open")
	for {
		conn, err := tunnel.Accept()
		if err != nil {
			return errors.Wrap(err, "cannot keep the tunnel open")
		}
		k.Take(conn)
	}
}
