package containerd

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
)

const (
	// firstAgain and lastAgain bound the pause after a failed start.
	firstAgain = 100 * time.Millisecond
	lastAgain  = 10 * time.Second
	// logCheck is the time between two checks of the log's size; maxLog is the greatest size of it and
	// of the one before it, in bytes.
	logCheck = 10 * time.Second
	maxLog   = 1 << 20
)

// keep starts croft's own containerd again whenever it ends, until ctx is done.
func (d *Daemon) keep(ctx context.Context, p *carrier.Process) {
	defer close(d.ended)
	tick := time.NewTimer(backoff.Together(logCheck))
	defer tick.Stop()
	var own *cgroup.Group
	for {
		select {
		case <-ctx.Done():
			p.Close()
			return
		case <-tick.C:
			tick.Reset(backoff.Together(logCheck))
			d.cfg.boundLog(maxLog)
			if own == nil {
				own = d.cfg.ownGroup()
			}
			if own != nil {
				d.cfg.moveShims(*own, p.PID())
			}
		case <-p.Done():
			d.cfg.Log.Warn().Str("step", "containerd").Int("pid", p.PID()).Msg("containerd has ended")
			p.Close()
			if p = d.again(ctx); p == nil {
				return
			}
			own = nil
		}
	}
}

// again starts containerd again; nil when ctx is done before it listens.
func (d *Daemon) again(ctx context.Context) *carrier.Process {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		d.cfg.boundLog(maxLog)
		p, err := d.cfg.ensure(ctx)
		if err == nil {
			return p
		}
		if ctx.Err() != nil {
			return nil
		}
		d.cfg.Log.Error().Str("step", "containerd").Err(err).Msg("cannot start containerd again")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// boundLog bounds the log's size: containerd has it open for appending, so its
// content is copied to log.1, and it is truncated.
func (c Config) boundLog(most int64) {
	from, err := os.OpenFile(c.log(), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || info.Size() <= most {
		return
	}
	old, err := os.OpenFile(c.log()+".1", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	defer old.Close()
	_, err = from.Seek(info.Size()-most, io.SeekStart)
	if err == nil {
		_, err = io.Copy(old, io.LimitReader(from, most))
	}
	if err == nil {
		err = from.Truncate(0)
	}
	if err != nil {
		c.Log.Warn().Str("step", "containerd").Err(err).Msg("cannot shorten containerd's log")
	}
}
