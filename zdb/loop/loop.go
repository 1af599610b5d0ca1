package loop

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Loop serves connections. It wires its parts together and runs the rounds.
type Loop struct {
	handler   Handler
	rare      zerolog.Logger // for events that may come in every round
	poller    *poller
	mail      *mailbox
	doors     *doors
	published published

	// The other parts belong to the loop's thread.
	round  *round
	agenda *agenda
	conns  *connections
	reader *reader
	writer *writer
	sweep  sweeper
}

// New makes a loop without listeners. Its Run has to be called, even with a context
// that is done: it closes everything.
func New(config Config) (*Loop, error) {
	if err := config.fill(); err != nil {
		return nil, err
	}
	poll, err := newPoller()
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a loop")
	}
	mail, err := newMailbox()
	if err == nil {
		err = poll.add(mail.fd)
	}
	if err != nil {
		poll.close()
		return nil, errors.Wrap(err, "cannot make a loop: cannot watch an eventfd")
	}
	rare := config.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: 10 * time.Second})
	now, todo, pool, open := &round{}, &agenda{}, &buffers{}, &table{}
	space := newPlaces(config.shares(), open)
	conns := &connections{handler: config.Handler, rare: rare, poller: poll, round: now, agenda: todo, places: space, pool: pool, table: open}
	space.closer = conns
	return &Loop{
		handler: config.Handler, rare: rare, poller: poll, mail: mail, round: now, agenda: todo, conns: conns,
		doors: &doors{poller: poll, log: config.Log, rare: rare, round: now, enter: conns.enter, open: map[int]*door{}},
		reader: &reader{
			handler: config.Handler, round: now, agenda: todo, fairness: fairness{round: now}, conns: conns, places: space, pool: pool,
			limits: config.limits(), strangers: config.strangers(), landing: make([]byte, readSize),
		},
		writer: &writer{rare: rare, poller: poll, round: now, agenda: todo, conns: conns, places: space, pool: pool},
		sweep:  newSweeper(&config, now, conns),
	}, nil
}

// Listen takes a listening socket over, tcp or unix; the caller's is closed, also
// on an error. Connections that come in there are Admin when admin is set. It may
// be called from any goroutine, before Run too.
func (l *Loop) Listen(socket *os.File, admin bool) error { return l.doors.add(socket, admin) }

// Listeners returns duplicates of the sockets that were taken over as admin ones,
// or the others. It may be called from any goroutine.
func (l *Loop) Listeners(admin bool) ([]*os.File, error) { return l.doors.list(admin) }

// Post has f run on the loop's thread, soon. It may be called from any goroutine,
// and returns false, without running f ever, once the loop has ended.
func (l *Loop) Post(f func()) bool { return l.mail.post(f) }

// Stats returns the counters up to the last round. It may be called from any
// goroutine.
func (l *Loop) Stats() Stats { return l.published.get() }

// Run serves until ctx is done, then closes all connections and listeners. It is
// called once. It returns an error other than ctx's when the loop can't go on.
func (l *Loop) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop := context.AfterFunc(ctx, l.mail.nudge)
	defer stop()
	defer l.end()
	for ctx.Err() == nil {
		if err := l.once(); err != nil {
			return err
		}
	}
	return nil
}

// once runs a round: it waits until there is work, and does it.
func (l *Loop) once() error {
	events, err := l.poller.wait(l.round.now, l.deadline())
	if err != nil {
		return errors.Wrap(os.NewSyscallError("epoll_wait", err), "cannot go on serving")
	}
	now := time.Now()
	l.round.now = now
	l.round.count.Rounds++
	idle := len(events) == 0 && !l.agenda.waiting()
	l.agenda.turns(l.reader.takeTurn)
	l.dispatch(events)
	if idle || !now.Before(l.round.tick) {
		l.round.tick = now.Add(l.handler.Tick(now))
	}
	l.finish()
	if l.sweep.due() {
		l.conns.pool.trim()
		l.doors.reopen()
		l.sweep.sweep()
	}
	l.conns.reap()
	l.publish()
	return nil
}

// deadline is when the next round has to begin.
func (l *Loop) deadline() time.Time {
	switch {
	case l.agenda.waiting():
		return l.round.now
	case l.sweep.next.Before(l.round.tick):
		return l.sweep.next
	}
	return l.round.tick
}

// dispatch handles events: of connections, listeners, and at last the mailbox.
func (l *Loop) dispatch(events []unix.EpollEvent) {
	mailed := false
	for i := range events {
		fd := int(events[i].Fd)
		if c := l.conns.table.of(fd); c != nil {
			l.reader.ready(c, events[i].Events)
		} else if fd == l.mail.fd {
			mailed = true
		} else {
			l.doors.knock(fd)
		}
	}
	if mailed {
		l.mail.run()
	}
}

// finish ends a round: writes are flushed, then the replies are sent.
func (l *Loop) finish() {
	err := l.handler.Flush()
	if err != nil {
		l.rare.Error().Err(err).Msg("writes cannot be flushed: the connections that wait for them are closed")
	}
	l.agenda.finish(func(c *Conn) { l.writer.finish(c, err == nil) })
}

func (l *Loop) publish() {
	s := l.round.count
	s.Connections, s.Buffers = int64(l.conns.table.open), l.conns.places.buffers
	l.published.set(s)
}

// end closes everything.
func (l *Loop) end() {
	l.conns.end()
	l.doors.end()
	l.mail.end()
	l.poller.close()
	l.publish()
}
