package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/bus/transport"
)

const (
	// pullTimeout is how long redis blocks; without an answer within pullGrace
	// more it is taken for dead.
	pullTimeout = 10 * time.Second
	pullGrace   = 5 * time.Second
	// unblockTimeout is how long a stopping puller waits for redis to confirm,
	// so that no frame is lost in between.
	unblockTimeout = 400 * time.Millisecond
)

// puller blocks on a connection of its own. It starts with each queue in turn,
// so that a busy one doesn't starve the others.
type puller struct {
	bus   *Bus
	keys  []string
	first int
	link  *link
	// id is the connection's ID in redis, 0 when unknown.
	id int64
}

// Pull implements transport.Bus.
func (b *Bus) Pull(keys ...string) transport.Puller {
	return &puller{bus: b, keys: keys}
}

// Close implements transport.Puller.
func (p *puller) Close() {
	if p.link != nil {
		p.link.drop()
		p.link = nil
	}
}

// Next implements transport.Puller.
func (p *puller) Next(ctx context.Context) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.connect(ctx); err != nil {
			return nil, err
		}
		frame, err := p.block(ctx)
		if err != nil {
			p.Close()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, err
		}
		if frame != nil {
			return frame, nil
		}
	}
}

func (p *puller) connect(ctx context.Context) error {
	if p.link != nil {
		return nil
	}
	l, err := p.bus.links.dial(ctx)
	if err != nil {
		return err
	}
	err = l.do(ctx, func() error {
		p.id, err = redigo.Int64(l.Do("CLIENT", "ID"))
		return err
	})
	var said redigo.Error
	if err == nil && l.aborted {
		err = ctx.Err()
	}
	if err != nil && !errors.As(err, &said) {
		l.drop()
		return err
	}
	p.link = l
	return nil
}

// block waits for one frame; nil without an error when none came.
func (p *puller) block(ctx context.Context) ([]byte, error) {
	p.first = (p.first + 1) % len(p.keys)
	args := redigo.Args{}.AddFlat(slices.Concat(p.keys[p.first:], p.keys[:p.first])).Add(int(pullTimeout / time.Second))

	var unblocking sync.WaitGroup
	unblocking.Add(1)
	done := make(chan struct{})
	link := p.link
	stop := context.AfterFunc(ctx, func() {
		defer unblocking.Done()
		p.unblock(link, done)
	})
	link.net.arm()
	reply, err := redigo.ByteSlices(link.DoWithTimeout(pullTimeout+pullGrace, "BLPOP", args...))
	close(done)
	if !stop() {
		unblocking.Wait()
	}
	switch {
	case errors.Is(err, redigo.ErrNil):
		return nil, nil
	case err != nil:
		return nil, err
	case len(reply) != 2:
		return nil, errors.New("cannot read a popped frame: redis sent no pair of queue and frame")
	}
	return reply[1], nil
}

// unblock asks redis to end the wait of blocked, until done is closed. Cutting a link
// in the middle of a pop would lose the popped frame, so that is the last resort.
func (p *puller) unblock(blocked *link, done <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), unblockTimeout)
	defer cancel()
	for p.id != 0 && ctx.Err() == nil {
		err := p.bus.links.use(ctx, func(l *link) error {
			_, err := l.Do("CLIENT", "UNBLOCK", p.id)
			return err
		})
		if err != nil {
			break
		}
		timer := time.NewTimer(10 * time.Millisecond)
		select {
		case <-done:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
	select {
	case <-done:
	default:
		blocked.abort()
	}
}
