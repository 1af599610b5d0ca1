package loop

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resp"
)

const (
	// maxUnsent is how much a client may leave unread before it is served no more.
	maxUnsent = 1 << 20
	// maxTurn is how many requests of a connection run before others have a turn.
	maxTurn = 128
	// shortWait is how long the thread waits without the scheduler knowing, who may
	// want to stop it: that interrupts the wait.
	shortWait = time.Millisecond
	// sweepEvery is how often connections are looked at that may have been idle too
	// long, and buffers that aren't needed.
	sweepEvery = time.Second
)

// Loop serves connections.
type Loop struct {
	config Config
	limits resp.Limits
	log    zerolog.Logger
	rare   zerolog.Logger // for what may happen in every round
	epoll  int
	mail   mailbox
	doors  doors

	// What follows belongs to the loop's thread.
	conns       []*Conn // by file descriptor
	connections int
	now         time.Time
	events      [512]unix.EpollEvent
	shared      []byte // what is read lands here first
	args        [][]byte
	pool        buffers
	buffers     int64 // bytes of all connections' buffers
	shares      shares
	sources     parties
	groups      parties
	admin       *party // who came over an admin's listener
	search      uint64 // the last one of heaviest
	strangers   struct {
		limits resp.Limits
		turn   turn
	}
	// known and unknown are how many connections there are of the one and the other
	// kind, those of admins' listeners apart.
	known, unknown int
	unknownBytes   int64
	touched        []*Conn // something happened to them in this round
	turn           []*Conn // have requests that wait for their turn
	spare          []*Conn // what turn was in the round before
	gone           []*Conn // closed in this round
	draining       int
	anyShut        bool      // a listener isn't waited for
	tick, sweep    time.Time // when they are next
	mailed         bool
	count          Stats

	published struct {
		sync.Mutex
		Stats
	}
}

// New makes a loop, which has no listener yet. Its Run has to be called, even
// with a context that is done: it closes all that there is.
func New(config Config) (*Loop, error) {
	if err := config.fill(); err != nil {
		return nil, err
	}
	l := &Loop{config: config, limits: config.limits(), log: config.Log, shared: make([]byte, readSize)}
	l.shares, l.sources, l.groups, l.admin = config.shares(), parties{}, parties{}, &party{name: "admin"}
	l.strangers.limits = config.strangers()
	l.rare = config.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: 10 * time.Second})
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, errors.Wrap(os.NewSyscallError("epoll_create1", err), "cannot make a loop")
	}
	if l.mail.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = watch(l.epoll, unix.EPOLL_CTL_ADD, l.mail.fd, unix.EPOLLIN)
	}
	if err != nil {
		_ = unix.Close(l.epoll)
		return nil, errors.Wrap(err, "cannot make a loop: cannot watch an eventfd")
	}
	return l, nil
}

// Run serves until ctx is done, then closes all connections and listeners. It is
// called once. An error other than ctx's is a loop that can't go on.
func (l *Loop) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop := context.AfterFunc(ctx, l.mail.nudge)
	defer stop()
	defer l.end()
	for ctx.Err() == nil {
		if err := l.round(); err != nil {
			return err
		}
	}
	return nil
}

// round waits until something is to be done, and does it.
func (l *Loop) round() error {
	n, err := l.wait()
	if err != nil {
		return errors.Wrap(os.NewSyscallError("epoll_wait", err), "cannot go on serving")
	}
	l.now = time.Now()
	l.count.Rounds++
	idle := n == 0 && len(l.turn) == 0
	l.turns()
	for i := range l.events[:n] {
		l.event(&l.events[i])
	}
	if l.mailed {
		l.mailed = false
		l.posted()
	}
	if idle || !l.now.Before(l.tick) {
		l.tick = l.now.Add(l.config.Handler.Tick(l.now))
	}
	l.finish()
	if !l.now.Before(l.sweep) {
		l.sweepUp()
	}
	l.reap()
	l.publish()
	return nil
}

// wait returns how many events there are, and waits for one when there is nothing
// else to do. Under load the next one comes within no time: until then the
// scheduler isn't told that this thread waits, because it would have another one
// look every 20 µs whether it still does. After a moment it is told.
func (l *Loop) wait() (int, error) {
	limit := l.patience(l.now)
	if n, err := epollWait(l.epoll, l.events[:], min(limit, shortWait)); n > 0 || err != nil || limit <= shortWait {
		return n, err
	}
	n, err := unix.EpollWait(l.epoll, l.events[:], milliseconds(l.patience(time.Now())))
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, err
}

// patience is how long it is until something is due.
func (l *Loop) patience(now time.Time) time.Duration {
	if len(l.turn) > 0 {
		return 0
	}
	next := l.tick
	if l.sweep.Before(next) {
		next = l.sweep
	}
	return max(next.Sub(now), 0)
}

// event is one thing that is ready.
func (l *Loop) event(e *unix.EpollEvent) {
	fd := int(e.Fd)
	if fd < len(l.conns) && l.conns[fd] != nil {
		l.ready(l.conns[fd], e.Events)
		return
	}
	if fd == l.mail.fd {
		l.mailed = true
		return
	}
	l.knock(fd)
}

// touch has c looked at when the round ends.
func (l *Loop) touch(c *Conn) {
	if !c.touched {
		c.touched = true
		l.touched = append(l.touched, c)
	}
}

// queue gives c a turn in the next round.
func (l *Loop) queue(c *Conn) {
	c.later = true
	if !c.queued {
		c.queued = true
		l.turn = append(l.turn, c)
	}
}

// turns runs requests of those that waited for it.
func (l *Loop) turns() {
	turn := l.turn
	l.turn, l.spare = l.spare[:0], turn
	for i, c := range turn {
		turn[i] = nil
		c.queued = false
		switch {
		case !c.later || c.dead:
		case l.spent(c):
			l.queue(c) // it is the next one's that wait as long
		case c.unread:
			c.unread, c.later = false, false
			l.touch(c)
			l.read(c)
		default:
			l.resume(c)
		}
	}
}

// sweepUp closes who was idle too long, and lets go of buffers.
func (l *Loop) sweepUp() {
	every := min(sweepEvery, l.config.Silence/4+1, l.config.Stall/4+1)
	if l.config.Idle > 0 {
		every = min(every, l.config.Idle/4+1)
	}
	l.sweep = l.now.Add(every)
	l.pool.trim()
	l.reopen()
	for _, c := range l.conns {
		if c == nil || c.dead {
			continue
		}
		silent := l.now.Sub(c.last)
		switch {
		case c.draining && silent >= drainTime:
			l.drop(c)
		case l.config.Idle > 0 && silent >= l.config.Idle, c.stranger && silent >= l.config.Silence:
			l.count.Idled++
			l.drop(c)
		case l.stalls(c):
			l.count.Stalled++
			l.drop(c)
		}
	}
}

// stalls says that c's client takes too long to send the rest of a request, or to
// take the rest of a reply.
func (l *Loop) stalls(c *Conn) bool {
	if c.unsent() > 0 && !c.stuck.IsZero() && l.now.Sub(c.stuck) >= l.config.Stall {
		return true
	}
	have := len(c.in) - c.at
	if have == 0 || c.later || c.held || c.slow() {
		return false
	}
	return l.now.Sub(c.begun) >= l.config.Stall+time.Duration(have/slowest)*time.Second
}

// end closes everything.
func (l *Loop) end() {
	for _, c := range l.conns {
		if c != nil {
			l.drop(c)
		}
	}
	l.reap()
	l.closeDoors()
	for {
		funcs := l.mail.take(true)
		if len(funcs) == 0 {
			break
		}
		for _, f := range funcs {
			f()
		}
	}
	l.mail.close()
	_ = unix.Close(l.epoll)
	l.publish()
}
