package userapi

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// flushEvery is how long a line may be buffered.
const flushEvery = 50 * time.Millisecond

// lineWriter writes a body of nodeapi.LinesType.
type lineWriter struct {
	ctx   context.Context
	w     http.ResponseWriter
	rc    *http.ResponseController
	stuck time.Duration

	mu    sync.Mutex
	begun bool
	dirty bool
	err   error
}

// stream answers with the lines that fill writes, and counts as one of the user's streams. An error
// before the first line becomes an ordinary error answer.
func (d *Door) stream(w http.ResponseWriter, r request, fill func(*lineWriter) error) error {
	leave, err := d.streams.take(r.user)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	out := &lineWriter{ctx: ctx, w: w, rc: http.NewResponseController(w), stuck: d.Limits.Stuck}
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if !supervise.Do(d.Log, "door stream", func() { out.keep(ctx, cancel, d.Pulse) }) {
			cancel()
		}
	})
	defer keeping.Wait()
	defer cancel()
	err = fill(out)
	if ctx.Err() != nil {
		return node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot go on: the user has hung up"))
	}
	return out.end(err)
}

// begin sends the head; mu is held.
func (o *lineWriter) begin() {
	if o.begun {
		return
	}
	o.begun = true
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.stuck))
	o.w.Header().Set("Content-Type", nodeapi.LinesType)
	o.w.WriteHeader(http.StatusOK)
}

// value writes one line.
func (o *lineWriter) value(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return errors.Wrap(err, "cannot encode a line")
	}
	return o.line(append(line, '\n'))
}

func (o *lineWriter) line(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.begin()
	_, o.err = o.w.Write(line)
	o.dirty = true
	return o.err
}

// keep flushes lines and sends heartbeats. It ends the stream when its reader is gone or has read
// nothing for too long.
func (o *lineWriter) keep(ctx context.Context, cancel context.CancelFunc, p nodeapi.Pulse) {
	beat := p.Beat
	if beat <= 0 {
		beat = nodeapi.Beat
	}
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			due := now.Sub(last) >= beat
			if due {
				last = now
			}
			if o.flush(due) != nil {
				cancel()
				return
			}
		}
	}
}

// flush sends the buffered lines; when due, also a heartbeat.
func (o *lineWriter) flush(due bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || (!o.dirty && !due) {
		return o.err
	}
	o.begin()
	if due {
		_ = o.rc.SetWriteDeadline(time.Now().Add(o.stuck))
		if _, o.err = o.w.Write([]byte{'\n'}); o.err != nil {
			return o.err
		}
	}
	o.dirty = false
	o.err = o.rc.Flush()
	return o.err
}

// end ends the body. An error becomes the last line, or is returned for an error answer when nothing
// was sent yet.
func (o *lineWriter) end(err error) error {
	o.mu.Lock()
	begun := o.begun
	o.mu.Unlock()
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.begin()
		return o.err
	}
	if !begun {
		return err
	}
	kind, text := node.KindOf(err), err.Error()
	if kind == node.Internal {
		text = "cannot go on: the node failed; its log says more"
	}
	if werr := o.value(nodeapi.Trailer{Error: text, Kind: string(kind)}); werr != nil {
		return werr
	}
	return err
}

// watch writes a container's statistics periodically.
func (d *Door) watch(out *lineWriter, id string) error {
	tick := time.NewTicker(d.Limits.Watch)
	defer tick.Stop()
	for {
		s, err := d.Streams.Stats(out.ctx, id)
		if err != nil {
			return err
		}
		if err := out.value(nodeapi.Stats(s)); err != nil {
			return err
		}
		select {
		case <-out.ctx.Done():
			return out.ctx.Err()
		case <-tick.C:
		}
	}
}
