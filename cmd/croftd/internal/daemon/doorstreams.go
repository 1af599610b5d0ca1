package daemon

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	containermodule "github.com/croft-edge/croft/cmd/croftd/internal/module/container"
	"github.com/croft-edge/croft/modules/container"
	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// containerStreams serves containers' outputs and inputs. It connects when a user first asks: the door
// opens before containerd is there, and also on nodes without one.
type containerStreams struct {
	connect func() (*container.Streams, error)
	log     zerolog.Logger

	mu     sync.Mutex
	opened *container.Streams
	closed bool
}

func (d *daemon) containerStreams(followers *logs.Followers) *containerStreams {
	log := d.host().Quiet().Log
	return &containerStreams{log: log, connect: func() (*container.Streams, error) {
		return containermodule.OpenStreams(d.Config.Config, d.dialer, followers, log)
	}}
}

func (s *containerStreams) open() (*container.Streams, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, node.Errorf(node.Transient, "cannot open streams: the node is stopping")
	}
	if s.opened != nil {
		return s.opened, nil
	}
	opened, err := s.connect()
	if err != nil {
		return nil, err
	}
	s.opened = opened
	return opened, nil
}

// close disconnects from containerd, for good.
func (s *containerStreams) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.opened == nil {
		return nil
	}
	return s.opened.Close()
}

// allLines is more than a node keeps of any container.
const allLines = 1 << 30

// Logs implements userapi.Streams.
func (s *containerStreams) Logs(ctx context.Context, id string, o nodeapi.LogOptions, f func(node.LogLine) error) error {
	streams, err := s.open()
	if err != nil {
		return err
	}
	if o.Tail < 0 {
		o.Tail = allLines
	}
	return streams.Logs(ctx, id, container.LogOptions(o), f)
}

// Stats implements userapi.Streams.
func (s *containerStreams) Stats(ctx context.Context, id string) (node.ContainerStats, error) {
	streams, err := s.open()
	if err != nil {
		return node.ContainerStats{}, err
	}
	return streams.Stats(ctx, id)
}

// Exec implements userapi.Streams.
func (s *containerStreams) Exec(ctx context.Context, id string, o nodeapi.ExecOptions, streams nodeapi.ExecIO) (uint32, error) {
	opened, err := s.open()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sizes := make(chan execs.Size)
	go func() {
		// Without resizing, the command is still usable.
		supervise.Do(s.log, "exec sizes", func() { passSizes(ctx, streams.Resize, sizes) })
	}()
	in := execs.Options{Args: o.Args, Env: o.Env, Terminal: o.Terminal, Width: o.Size.Width, Height: o.Size.Height}
	out := execs.Streams{Stdin: streams.Stdin, Stdout: streams.Stdout, Resize: sizes}
	if !o.Terminal {
		out.Stderr = streams.Stderr
	}
	return opened.Exec(ctx, id, in, out)
}

// passSizes passes a terminal's sizes on until ctx is done.
func passSizes(ctx context.Context, from <-chan nodeapi.Size, to chan<- execs.Size) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-from:
			select {
			case to <- execs.Size(s):
			case <-ctx.Done():
				return
			}
		}
	}
}
