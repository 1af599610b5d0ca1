// Package events hears from the kernel that something has changed in network namespaces:
// links, addresses, routes, queueing disciplines and nftables rules. Two sockets in the
// process's own namespace hear of that namespace, and of all others that have an ID in it
// (see IDOf). The package knows no network, and changes nothing but these IDs.
package events

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Own is the ID of the process's own namespace in an Event.
const Own = -1

// Event is one change.
type Event struct {
	// Namespace is the ID of the namespace that has changed, or that has ended.
	Namespace int
	Ended     bool
	// Link is the name of the link that has changed, empty when it isn't known. In the
	// process's own namespace it is known for watched links only; others aren't told.
	Link string
}

// Config is a Listener's configuration. The functions may not wait.
type Config struct {
	// Watched reports whether a link of the process's own namespace is to be told.
	Watched func(link string) bool
	// Began is called when all changes from now on are heard. Lost is called when changes
	// may not have been heard: then everything has to be looked at.
	Began   func()
	Lost    func()
	Changed func(e Event)
	Log     zerolog.Logger
}

// Listener hears of changes.
type Listener struct {
	cfg Config

	// mu lets one goroutine at a time read and handle what the kernel tells.
	mu sync.Mutex
	// sockets are those that are open.
	sockets []socket
	// abort ends listen with an error; nil while that doesn't run.
	abort context.CancelCauseFunc
	// own are the names of all links of the process's own namespace, by their indexes: a link may be watched later.
	own          map[uint32]string
	buf, control []byte
}

// New makes a Listener. Nothing is heard before Run.
func New(c Config) *Listener {
	return &Listener{cfg: c, buf: make([]byte, mostMessage), control: make([]byte, unix.CmsgSpace(4)*4)}
}

// buffer is the size of each socket's queue in the kernel; changes that don't fit are lost.
const buffer = 512 << 10

// Run hears of changes until ctx is done. After an error it begins again.
func (l *Listener) Run(ctx context.Context) error {
	retry := backoff.Backoff{Base: 100 * time.Millisecond, Max: 10 * time.Second}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := l.listen(ctx)
		l.cfg.Lost()
		if ctx.Err() != nil {
			break
		}
		if failures++; time.Since(began) > retry.Max {
			failures = 1
		}
		if failures == 1 {
			l.cfg.Log.Warn().Str("type", "network").Str("step", "watch").Err(err).Msg("the kernel's notices of changes have ended: listening again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.Delay(failures)):
		}
	}
	return ctx.Err()
}

// listen hears of changes until ctx is done or a socket fails.
func (l *Listener) listen(ctx context.Context) error {
	routes, err := open(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NSID)
	if err != nil {
		return err
	}
	defer routes.Close()
	rules, err := open(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return err
	}
	defer rules.Close()
	l.mu.Lock()
	err = l.learn()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	sockets, err := rawOf(map[*os.File]func(int, message){routes: l.route, rules: l.rule})
	if err != nil {
		return err
	}
	l.cfg.Began()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	l.use(sockets, abort)
	defer l.use(nil, nil)
	stop := context.AfterFunc(ctx, func() { routes.Close(); rules.Close() })
	defer stop()
	ended := make(chan error, len(sockets))
	for _, s := range sockets {
		go func() { ended <- l.read(s) }()
	}
	err = <-ended
	routes.Close()
	rules.Close()
	if other := <-ended; err == nil { // the other says that its socket is closed
		err = other
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// use sets the sockets that CatchUp reads, and what ends listen.
func (l *Listener) use(sockets []socket, abort context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sockets, l.abort = sockets, abort
}

func rawOf(files map[*os.File]func(int, message)) (out []socket, err error) {
	for file, handle := range files {
		raw, err := file.SyscallConn()
		if err != nil {
			return nil, errors.Wrap(err, "cannot listen for changes")
		}
		out = append(out, socket{raw: raw, handle: handle})
	}
	return out, nil
}

// learn notes the links that are there. The caller holds mu.
func (l *Listener) learn() error {
	all, err := netns.Whole(netlink.LinkList)
	if err != nil {
		return errors.Wrap(err, "cannot list links")
	}
	l.own = map[uint32]string{}
	for _, one := range all {
		l.own[uint32(one.Attrs().Index)] = one.Attrs().Name
	}
	return nil
}

// open opens a socket that hears of groups in all namespaces that have an ID.
func open(protocol int, groups ...int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, errors.Wrap(err, "cannot listen for changes")
	}
	failed := func(err error) (*os.File, error) {
		_ = unix.Close(fd)
		return nil, errors.Wrap(err, "cannot listen for changes")
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return failed(err)
	}
	// Without the right to it the usual size has to do: a flood is lost sooner.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer)
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
		return failed(err)
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return failed(err)
		}
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// IDOf is the ID that the namespace at path has in the process's own; one without an ID
// gets one. The process's own has Own.
func IDOf(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, node.Errorf(node.NotExist, "cannot watch network namespace %s: %w", path, err)
	}
	defer file.Close()
	id, err := netlink.GetNetNsIdByFd(int(file.Fd()))
	if err == nil && id < 0 {
		// Somebody else may give it one at the same time: that is as good.
		_ = netlink.SetNetNsIdByFd(int(file.Fd()), unix.NETNSA_NSID_NOT_ASSIGNED)
		id, err = netlink.GetNetNsIdByFd(int(file.Fd()))
	}
	if err == nil && id < 0 {
		err = errors.New("the kernel gives it no ID")
	}
	return id, errors.Wrapf(err, "cannot watch network namespace %s", path)
}
