package userapi

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// attendant serves one run of the door's process, and ends it when it breaks the rules of package wire.
type attendant struct {
	door    *Door
	control *wire.Control
	kill    context.CancelFunc
	beats   chan uint32
	all     sync.WaitGroup
	// proving bounds the signatures that the process may wait for at a time.
	proving chan struct{}

	mu  sync.Mutex
	key ed25519.PublicKey
	why error
}

// end ends the process; the first reason is kept.
func (a *attendant) end(why error) {
	a.mu.Lock()
	if a.why == nil {
		a.why = why
	}
	a.mu.Unlock()
	a.kill()
}

func (a *attendant) reason() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// listen receives the process's messages, at most processWords a second.
func (a *attendant) listen(ctx context.Context) error {
	a.proving = make(chan struct{}, wire.MaxProofs)
	pace := pace{most: processWords.Each}
	for {
		m, err := a.control.FromDoor()
		if err != nil {
			return a.hungUp(ctx, err)
		}
		if err := a.hear(ctx, m); err != nil {
			return err
		}
		if err := pace.wait(ctx); err != nil {
			return nil //nolint:nilerr // it is to end
		}
	}
}

// hungUp returns the reason why the control socket ended: nil where the process has ended, as Wait
// knows why.
func (a *attendant) hungUp(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		return err
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

func (a *attendant) hear(ctx context.Context, m wire.Message) error {
	if m.Kind != wire.Hello && a.key == nil && m.Kind != wire.Beat {
		return errors.New("it sends a request before its key")
	}
	switch m.Kind {
	case wire.Hello:
		if a.key != nil {
			return errors.New("it has sent its key twice")
		}
		a.key = ed25519.PublicKey(m.Body)
	case wire.Proof:
		return a.prove(ctx, m)
	case wire.Link:
		return a.link(ctx, m.Number)
	case wire.Reached:
		if m.Number >= wire.Limits {
			return errors.New("it reports an unknown limit")
		}
		limit.Add(a.door.setup().Limits[m.Number].Name, uint64(binary.BigEndian.Uint32(m.Body)))
	case wire.Beat:
		select {
		case a.beats <- m.Number:
		default:
			return errors.New("it sends a sign of life without being asked")
		}
	}
	return nil
}

// prove signs, only for the process's own TLS key, the proof that the key speaks for the node.
func (a *attendant) prove(ctx context.Context, m wire.Message) error {
	select {
	case a.proving <- struct{}{}:
	default:
		return errors.Errorf("it asks for more than %d signatures at a time", wire.MaxProofs)
	}
	key := a.key
	a.all.Go(func() {
		_ = supervise.Guard(a.door.Log, "door proof", func() error {
			proof, err := a.door.Sign(ctx, nodeapi.ProofBytes(a.door.NodeID, m.Body, key))
			<-a.proving
			answer := wire.Message{Kind: wire.Proof, Number: m.Number}
			if err == nil {
				answer.Body = append([]byte{1}, proof...)
			}
			if err := a.control.Send(answer); err != nil {
				a.end(ended(ctx, err))
			}
			return nil
		})
	})
	return nil
}

// link opens a link for a connection, if a place is free.
func (a *attendant) link(ctx context.Context, number uint32) error {
	answer := wire.Message{Kind: wire.Link, Number: number}
	leave, err := a.door.links.Take("", 1)
	if err != nil {
		return a.control.Send(answer)
	}
	ours, theirs, err := wire.Pair(unix.SOCK_STREAM)
	if err != nil {
		leave()
		a.door.Log.Warn().Err(err).Msg("connection to the door refused")
		return a.control.Send(answer)
	}
	defer theirs.Close()
	answer.File = theirs
	c := &caller{door: a.door, conn: ours, stayed: make(chan byte, 1)}
	a.all.Go(func() {
		defer leave()
		defer ours.Close()
		supervise.Do(a.door.Log, "door link", func() { c.attend(ctx) })
	})
	return a.control.Send(answer)
}

// watch sends heartbeats to the process, which must answer each in time.
func (a *attendant) watch(ctx context.Context) error {
	hung := a.door.Limits.Hung
	tick := time.NewTimer(backoff.Together(hung / 2))
	defer tick.Stop()
	for n := uint32(1); ; n++ {
		if err := a.control.Send(wire.Message{Kind: wire.Beat, Number: n}); err != nil {
			return ended(ctx, err)
		}
		late := time.NewTimer(hung)
		select {
		case <-ctx.Done():
			late.Stop()
			return nil
		case <-late.C:
			return errors.Errorf("it sent nothing for %s", hung)
		case got := <-a.beats:
			late.Stop()
			if got != n {
				return errors.New("it sends a sign of life without being asked")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Reset(backoff.Together(hung / 2))
		}
	}
}

// ended returns err, or nil when the process has ended: Wait knows why.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// pace limits events to most a second.
type pace struct {
	most, n int64
	since   time.Time
}

func (p *pace) wait(ctx context.Context) error {
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.since, p.n = now, 0
	}
	if p.n++; p.n < p.most {
		return nil
	}
	processWords.Reached()
	timer := time.NewTimer(p.since.Add(time.Second).Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
