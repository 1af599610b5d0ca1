package zdb

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/cursor"
	"github.com/croft-edge/croft/zdb/hooks"
	"github.com/croft-edge/croft/zdb/loop"
	"github.com/croft-edge/croft/zdb/throttle"
)

const textRemoved = "Your active namespace is not available anymore (probably removed)."

// Server runs commands. Apart from Attach, Stats and Close, all its methods are called
// on the loop's thread.
type Server struct {
	log      zerolog.Logger
	loop     *loop.Loop // nil before Attach
	hooks    *hooks.Runner
	all      *namespaces
	table    table
	access   *access
	attempts *attempts
	pages    *pages
	upkeep   *upkeep
	waits    *waits
	count    *counters
	sessions int
}

// New opens the folders and all namespaces in them. A namespace that can't be
// opened is left out, which the log says; it keeps its folder. It fails when the
// folders can't be used, or another server has them.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	instance := binary.LittleEndian.Uint32(random[:])
	count := &counters{}
	all, err := newNamespaces(cfg, count)
	if err != nil {
		return nil, err
	}
	s := &Server{log: cfg.Log, all: all, hooks: hooks.New(cfg.Hook, instance, cfg.Log), count: count}
	s.wire(cfg, instance)
	// The program may restore lost data, so its end is awaited.
	s.hooks.Run("namespaces-init", cfg.Index, cfg.Data)
	s.hooks.Wait()
	if err := all.load(); err != nil {
		return nil, errors.Wrap(closeAll(s, err), "cannot open the zdb")
	}
	s.hooks.Run("ready")
	return s, nil
}

// wire makes the parts of a server and the table of their commands.
func (s *Server) wire(cfg Config, instance uint32) {
	v2, now := cfg.Compat == CompatV2, time.Now
	dialect := cursor.V2()
	if !v2 {
		dialect = cursor.V1()
	}
	s.upkeep = &upkeep{rare: cfg.Log.Sample(&zerolog.BurstSampler{Burst: 10, Period: 10 * time.Second}), now: now, count: s.count}
	s.attempts = &attempts{sources: throttle.New(), now: now}
	s.access = &access{
		v2: v2, password: cfg.Admin, protect: cfg.Protect, socket: cfg.AdminSocket,
		log: cfg.Log, count: s.count, attempts: s.attempts, named: s.all.named,
	}
	s.waits = &waits{find: s.table.find}
	s.pages = newPages(cfg, dialect, s.upkeep)
	s.table = newTable(cfg.Compat, groups{
		access: s.access, pages: s.pages, waits: s.waits,
		history: &history{dialect: dialect, upkeep: s.upkeep},
		reports: &reports{
			cfg: cfg, instance: instance, boot: now(), now: now, count: s.count, all: s.all,
			guarded: func(ns *namespace) bool { return s.access.passwordOf(ns) != "" },
		},
		keys: &keyCommands{v2: v2, layout: s.all.layout, count: s.count, upkeep: s.upkeep},
		management: &management{
			v2: v2, oneMode: cfg.Mode != "", most: cfg.MaxNamespaces, log: cfg.Log,
			all: s.all, hooks: s.hooks, waits: s.waits, upkeep: s.upkeep, counters: s.count,
		},
		system: &system{debug: cfg.Debug, end: cfg.Stop, now: now, count: s.count, upkeep: s.upkeep, hooks: s.hooks},
	}.commands())
	s.count.commands = make([]uint64, len(s.table.all))
}

func closeAll(s *Server, err error) error {
	if e := s.Close(); e != nil {
		s.log.Error().Err(e).Msg("cannot close the zdb")
	}
	return err
}

// Attach sets the loop that calls the server, for Stats. It is called before the
// loop runs.
func (s *Server) Attach(l *loop.Loop) { s.loop = l }

// Close ends hooks and closes all namespaces, once the loop has ended.
func (s *Server) Close() error {
	s.hooks.Close()
	return s.all.close()
}

// Open begins a session, in default.
func (s *Server) Open(c *loop.Conn) {
	s.count.clients++
	s.sessions++
	se := &session{conn: c, ns: s.all.slots[0]}
	c.State = se
	s.access.enter(se)
}

// Closed ends a session.
func (s *Server) Closed(c *loop.Conn) {
	s.sessions--
	s.waits.end(c.State.(*session))
	s.attempts.end(c.State.(*session))
	c.State = nil
}

// Command runs one request.
func (s *Server) Command(conn *loop.Conn, args [][]byte) {
	c := conn.State.(*session)
	if c.ns.gone {
		c.fail(textRemoved)
		conn.CloseAfter()
		return
	}
	cmd := s.table.find(args[0])
	if cmd == nil {
		s.count.unknown++
		c.fail("Command not supported")
		return
	}
	s.count.executed++
	s.count.commands[cmd.index]++
	if cmd.allowed(c, args, s.count) {
		cmd.run(c, args)
	}
	// Values that it read may have been written in this round, and be undone with it.
	if c.ns.care.unflushed {
		conn.AwaitFlush()
	}
	if len(c.ns.waiting) > 0 {
		s.waits.wake(c, cmd)
	}
}

// Flush writes this round's changes. After an error the connections whose replies
// depend on it are closed.
func (s *Server) Flush() error { return s.upkeep.flush() }

// Tick ends waits whose time is over, runs delayed checks of passwords, and has stores
// do the work that they put off: clean, and make writes durable.
func (s *Server) Tick(now time.Time) time.Duration {
	next := now.Add(tickEvery)
	for _, until := range []time.Time{s.waits.expire(now), s.attempts.resume(now)} {
		if !until.IsZero() && until.Before(next) {
			next = until
		}
	}
	return max(s.upkeep.tick(now, next).Sub(now), 0)
}

// Stats asks the loop's thread. It may be called from any goroutine, and fails
// when ctx is done before, or the loop has ended.
func (s *Server) Stats(ctx context.Context) (Stats, error) {
	if err := ctx.Err(); err != nil {
		return Stats{}, errors.Wrap(err, "cannot read the zdb's statistics")
	}
	got := make(chan Stats, 1)
	if s.loop == nil || !s.loop.Post(func() { got <- s.stats() }) {
		return Stats{}, errors.New("cannot read the zdb's statistics: it doesn't run")
	}
	select {
	case st := <-got:
		return st, nil
	case <-ctx.Done():
		return Stats{}, errors.Wrap(ctx.Err(), "cannot read the zdb's statistics")
	}
}

func (s *Server) stats() Stats {
	st := s.count.stats(s.table.all)
	st.Sessions, st.Waiting = s.sessions, len(s.waits.sessions)
	s.all.addTo(&st)
	return st
}
