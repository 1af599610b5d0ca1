package bench

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// load sends requests to a server with the protocol of Redis, as redis-benchmark does: on one thread,
// from several clients, each with several pipelined requests.
type load struct {
	network, address string
	clients          int
	pipeline         int
	requests         int
	// ask appends the next request.
	ask func(dst []byte) []byte
	// wants is the size of a reply in bytes; other replies count as wrong. 0: any size.
	wants int
}

// loader is a client of a load.
type loader struct {
	fd   int
	out  []byte
	in   []byte // the beginning of an incomplete reply
	open int    // outstanding replies
}

// run returns the rate of answered requests a second.
func (l load) run(b *testing.B) float64 {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(epoll)
	clients := map[int32]*loader{}
	for range l.clients {
		c := l.connect(b)
		defer unix.Close(c.fd)
		clients[int32(c.fd)] = c
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd)}); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	left := l.requests
	for _, c := range clients {
		left -= l.send(b, c, left)
	}
	events := make([]unix.EpollEvent, l.clients)
	buf := make([]byte, 256<<10)
	for done := 0; done < l.requests; {
		n, err := unix.EpollWait(epoll, events, 60_000)
		if n <= 0 && err != unix.EINTR {
			b.Fatalf("%s: no reply within a minute: %v", l.address, err)
		}
		for _, e := range events[:max(n, 0)] {
			c := clients[e.Fd]
			n, err := unix.Read(c.fd, buf)
			if n <= 0 {
				b.Fatalf("%s: the server has gone: %v", l.address, err)
			}
			got := c.read(b, buf[:n], l.wants)
			done += got
			if c.open -= got; c.open == 0 {
				left -= l.send(b, c, left)
			}
		}
	}
	return float64(l.requests) / time.Since(began).Seconds()
}

func (l load) connect(b *testing.B) *loader {
	b.Helper()
	conn, err := net.Dial(l.network, l.address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	c := &loader{}
	var failed error
	err = raw.Control(func(fd uintptr) { c.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil && failed == nil {
		err = unix.SetNonblock(c.fd, false)
	}
	if err != nil || failed != nil {
		b.Fatal(err, failed)
	}
	return c
}

// send writes a client's next requests, at most left, and returns their number.
func (l load) send(b *testing.B, c *loader, left int) int {
	b.Helper()
	n := min(l.pipeline, left)
	c.out = c.out[:0]
	for range n {
		c.out = l.ask(c.out)
	}
	c.open = n
	for rest := c.out; len(rest) > 0; {
		k, err := unix.Write(c.fd, rest)
		if err != nil && err != unix.EINTR {
			b.Fatal(err)
		}
		rest = rest[max(k, 0):]
	}
	return n
}

// read counts the replies that are complete with data.
func (c *loader) read(b *testing.B, data []byte, wants int) int {
	b.Helper()
	got := 0
	if len(c.in) > 0 {
		data = append(c.in, data...)
		c.in = c.in[:0]
	}
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			c.in = append(c.in, data...)
			break
		}
		size := end + 1
		if data[0] == '$' && data[1] != '-' {
			n, err := strconv.Atoi(string(data[1 : end-1]))
			if err != nil {
				b.Fatalf("a reply begins with %q", data[:end])
			}
			size += n + 2
		}
		if size > len(data) {
			c.in = append(c.in, data...)
			break
		}
		if data[0] == '-' || wants > 0 && size != wants {
			b.Fatalf("a reply is %q", data[:min(size, 100)])
		}
		data = data[size:]
		got++
	}
	return got
}

func bulk(dst []byte, parts ...[]byte) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(parts))
	for _, p := range parts {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(p)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, p...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}
