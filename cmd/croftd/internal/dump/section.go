package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
)

// section is one that is read by one goroutine at a time. A reading that doesn't end in time is left behind, and
// keeps the section busy, so that a section that hangs costs one goroutine, however often it is dumped.
type section struct {
	Section
	busy atomic.Bool
	log  zerolog.Logger
}

// all reads every section, beside each other.
func (s *Server) all(ctx context.Context) []member {
	out := make([]member, len(s.sections))
	var reading sync.WaitGroup
	for i, one := range s.sections {
		reading.Go(func() {
			supervise.Do(s.log, "dump", func() { out[i] = one.member(ctx, s.limits) })
		})
	}
	reading.Wait()
	return out
}

// one reads the section of that name, else the resources of the type of that name; others have no members.
func (s *Server) one(ctx context.Context, name string) []member {
	for _, one := range s.sections {
		if one.Name == name {
			return []member{one.member(ctx, s.limits)}
		}
	}
	if s.resources == nil {
		return nil
	}
	raw, err := s.types.read(ctx, s.limits, func(ctx context.Context) (any, error) { return s.resources.named(ctx, name) })
	if errors.Is(err, errNoType) {
		return nil
	}
	return []member{memberOf(name, raw, err)}
}

// member reads the section. What goes wrong becomes its content.
func (s *section) member(ctx context.Context, limits Limits) member {
	raw, err := s.read(ctx, limits, s.Read)
	return memberOf(s.Name, raw, err)
}

func memberOf(name string, raw json.RawMessage, err error) member {
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return member{name: name, raw: raw}
}

// read calls get, beside nothing else of the section.
func (s *section) read(ctx context.Context, limits Limits, get func(context.Context) (any, error)) (json.RawMessage, error) {
	if !s.busy.CompareAndSwap(false, true) {
		return nil, errors.Errorf("cannot read section %s: an earlier reading hasn't returned", s.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	var raw json.RawMessage
	done := make(chan error, 1)
	go func() {
		done <- supervise.Guard(s.log, "section "+s.Name+" of a dump", func() (err error) {
			defer s.busy.Store(false)
			raw, err = s.encoded(ctx, limits.Size, get)
			return err
		})
	}()
	select {
	case err := <-done:
		return raw, err
	case <-ctx.Done():
		return nil, errors.Errorf("cannot read section %s within %s", s.Name, limits.Time)
	}
}

func (s *section) encoded(ctx context.Context, size int, get func(context.Context) (any, error)) (json.RawMessage, error) {
	value, err := get(ctx)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot read section %s", s.Name)
	}
	out := &limited{left: size}
	if err := jsonv2.MarshalWrite(out, value, jsonv1.DefaultOptionsV1()); err != nil {
		if errors.Is(err, errTooLarge) {
			return nil, errors.Errorf("cannot show section %s: it is larger than %d bytes", s.Name, size)
		}
		return nil, errors.Wrapf(err, "cannot show section %s", s.Name)
	}
	return out.Bytes(), nil
}

// errTooLarge ends the encoding of what is too large.
var errTooLarge = errors.New("it is too large")

// limited is a buffer that takes so many bytes and no more.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errTooLarge
	}
	return l.Buffer.Write(p)
}

// goroutines is the profile of goroutines as text: those with the same stack together.
func goroutines(context.Context) (any, error) {
	var out bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&out, 1); err != nil {
		return nil, err
	}
	// YAML shows a text with tabs in quotes, on one line.
	return strings.ReplaceAll(strings.TrimSpace(out.String()), "\t", "  "), nil
}
