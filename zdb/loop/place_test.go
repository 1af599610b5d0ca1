package loop_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/zdb/loop"
)

const tooMany = "-Too many connections\r\n"

// from connects from an address of its own, which is a source of its own.
func (w *world) from(n int) net.Conn {
	w.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, byte(n/250), byte(n%250+1))}}
	c, err := d.Dial("tcp", w.tcp)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// as connects, and is of a group and a kind: known, stranger or other.
func (w *world) as(from int, group, kind string) net.Conn {
	w.t.Helper()
	c := w.from(from)
	write(w.t, c, request("STAND", group, kind))
	expect(w.t, c, "+OK\r\n")
	return c
}

func alive(t *testing.T, conns ...net.Conn) {
	t.Helper()
	for _, c := range conns {
		write(t, c, request("PING"))
		expect(t, c, "+PONG\r\n")
	}
}

func reached(l limit.Limit, before uint64) bool { return limit.Times()[l.Name] > before }

// An address counts for its source, whatever the listener is of.
func TestSources(t *testing.T) {
	w := start(t, loop.Config{})
	_, port, _ := net.SplitHostPort(w.listen("tcp", "[::]:0", false))
	for _, c := range []struct{ network, address, want string }{
		{"tcp", w.tcp, "127.0.0.1"}, {"tcp", "127.0.0.1:" + port, "127.0.0.1"}, {"tcp", "[::1]:" + port, "::/64"},
		{"unix", w.unix, "local"}, {"unix", w.admin, "admin"},
	} {
		conn := w.dialTo(c.network, c.address)
		write(t, conn, request("SOURCE"))
		expect(t, conn, "+"+c.want+"\r\n")
	}
}

// Of a source, a stranger more takes the place of the one that said nothing for
// the longest; one that isn't a stranger goes for nobody of its source. The known
// ones don't count.
func TestPlacesOfASource(t *testing.T) {
	before := limit.Times()[loop.Connections.Name]
	w := start(t, loop.Config{MaxSource: 3})
	first := w.as(1, "", "stranger")
	second := w.as(1, "", "stranger")
	third := w.as(1, "", "stranger")
	alive(t, first)
	fourth := w.as(1, "", "stranger")
	expectEnd(t, second, tooMany)
	alive(t, third, first, fourth, w.from(2))
	for _, c := range []net.Conn{first, third, fourth} {
		write(t, c, request("STAND", "", "other"))
		expect(t, c, "+OK\r\n")
	}
	expectEnd(t, w.from(1), tooMany)
	write(t, first, request("STAND", "", "known"))
	expect(t, first, "+OK\r\n")
	fifth := w.from(1)
	alive(t, first, third, fourth, fifth)
	if !reached(loop.Connections, before) {
		t.Error("that wasn't counted")
	}
}

// All places: strangers go for others, however many they are and from however
// many addresses; some places are for known ones, who go for nobody that isn't.
func TestTotalPlaces(t *testing.T) {
	w := start(t, loop.Config{MaxConnections: 32})
	const forUnknown = 24
	known := []net.Conn{w.as(500, "a", "known"), w.as(501, "b", "known")}
	other := []net.Conn{w.as(502, "open", "other"), w.as(502, "open", "other")}
	for n := range 200 {
		w.as(n, "", "stranger")
	}
	if s := w.stats(); s.Connections > forUnknown+2 {
		t.Errorf("there are %d connections, want at most %d", s.Connections, forUnknown+2)
	}
	alive(t, known...)
	alive(t, other...)
	for n := range 6 {
		known = append(known, w.as(600+n, "a", "known"))
	}
	alive(t, known...)
	alive(t, other...)
	// A group of many makes room for one of few.
	for n := range 40 {
		w.as(700+n%4, "crowd", "other")
	}
	alive(t, w.as(800, "few", "other"))
	alive(t, known...)
	alive(t, other...)
	// Nor do known ones take all: there is a place for who comes.
	for n := range 60 {
		w.as(900+n, "greedy", "known")
	}
	alive(t, known[0], known[1], w.from(999))
}

// A group has so many places. Of strangers in it the longest silent one of the
// source with the most goes; known ones go for known ones only.
func TestPlacesOfAGroup(t *testing.T) {
	before := limit.Times()[loop.GroupConnections.Name]
	w := start(t, loop.Config{MaxGroup: 3})
	one, another := w.as(1, "g", "other"), w.as(1, "g", "other")
	single := w.as(2, "g", "other")
	alive(t, one, w.as(3, "h", "other"))
	known := w.as(4, "g", "known")
	expectEnd(t, another, tooMany)
	alive(t, one, single, known)
	more := []net.Conn{w.as(5, "g", "known"), w.as(5, "g", "known")}
	expectEnd(t, one, tooMany)
	expectEnd(t, single, tooMany)
	refused := w.from(6)
	write(t, refused, request("STAND", "g", "other"))
	expect(t, refused, "-No place\r\n")
	alive(t, refused, known, more[0], more[1])
	last := w.as(7, "g", "known")
	expectEnd(t, more[0], tooMany)
	alive(t, known, more[1], last)
	// Who leaves it leaves a place.
	write(t, known, request("STAND", "h", "known"))
	expect(t, known, "+OK\r\n")
	alive(t, w.as(8, "g", "other"))
	if !reached(loop.GroupConnections, before) {
		t.Error("that wasn't counted")
	}
}

// Admins' listeners have places apart, and a bound.
func TestPlacesOfAdmins(t *testing.T) {
	before := limit.Times()[loop.AdminConnections.Name]
	w := start(t, loop.Config{MaxConnections: 1})
	alive(t, w.from(1))
	expectEnd(t, w.from(1), tooMany)
	var admins []net.Conn
	for range loop.AdminConnections.Total {
		c := w.dialTo("unix", w.admin)
		alive(t, c)
		admins = append(admins, c)
	}
	expectEnd(t, w.dialTo("unix", w.admin), tooMany)
	_ = admins[0].Close()
	until(t, "one has gone", func() bool { return w.stats().Connections == loop.AdminConnections.Total })
	alive(t, w.dialTo("unix", w.admin))
	if !reached(loop.AdminConnections, before) {
		t.Error("that wasn't counted")
	}
}

// begin sends the beginning of a request of 8 MB.
func begin(t *testing.T, c net.Conn, size int) {
	t.Helper()
	write(t, c, append([]byte("*2\r\n$3\r\nSUM\r\n$8000000\r\n"), bytes.Repeat([]byte("x"), size)...))
}

// What a source begins is bounded; who isn't known has half of all at most, and
// the group that has the most loses, not the one with the largest request.
func TestBuffersOfSources(t *testing.T) {
	before := limit.Times()[loop.Buffers.Name]
	w := start(t, loop.Config{MaxBuffers: 96 << 20})
	single := w.as(500, "a", "other")
	begin(t, single, 4<<20)
	for range 8 {
		begin(t, w.as(1, "b", "other"), 5<<20)
	}
	until(t, "a source's are bounded", func() bool { return w.stats().Evicted >= 3 })
	known := w.as(501, "c", "known")
	begin(t, known, 6<<20)
	for n := range 40 {
		begin(t, w.as(10+n, "b", "other"), 2<<20)
		if s := w.stats(); s.Buffers > (48+10)<<20 {
			t.Fatalf("%d bytes are held", s.Buffers)
		}
	}
	for c, have := range map[net.Conn]int{single: 4 << 20, known: 6 << 20} {
		write(t, c, append(bytes.Repeat([]byte("x"), 8_000_000-have), "\r\n"...))
		expect(t, c, ":8000000\r\n")
	}
	if !reached(loop.Buffers, before) {
		t.Error("that wasn't counted")
	}
}

// What one connection may hold is bounded, though there is room.
func TestBuffersOfAConnection(t *testing.T) {
	before := limit.Times()[loop.ConnectionBuffers.Name]
	w := start(t, loop.Config{MaxBuffers: 256 << 20})
	c, other := w.as(1, "a", "known"), w.as(1, "a", "known")
	write(t, other, request("ROOM"))
	const most = 32 << 20
	expect(t, other, fmt.Sprintf(":%d\r\n", most-most/5))
	write(t, c, request("BIG", strconv.Itoa(40<<20)))
	expectGone(t, c)
	alive(t, other)
	if s := w.stats(); s.Evicted != 1 || !reached(loop.ConnectionBuffers, before) {
		t.Errorf("%d were evicted", s.Evicted)
	}
}

// A stranger's requests are small ones, until it isn't one any more.
func TestRequestsOfStrangers(t *testing.T) {
	before := limit.Times()[loop.StrangerRequest.Name]
	w := start(t, loop.Config{})
	const most = 16 << 10
	large := request("SUM", strings.Repeat("x", most+1))
	for _, ask := range [][]byte{large, request("SUM", strings.Repeat("x", most-200), strings.Repeat("x", 300))} {
		c := w.as(1, "", "stranger")
		write(t, c, ask)
		expectEnd(t, c, "-Request too big before SELECT or AUTH\r\n")
	}
	c := w.as(1, "", "stranger")
	write(t, c, request("SUM", strings.Repeat("x", most-100)))
	expect(t, c, fmt.Sprintf(":%d\r\n", most-100))
	// All in one go: what comes behind STAND is no stranger's.
	write(t, c, append(request("STAND", "g", "other"), large...))
	expect(t, c, fmt.Sprintf("+OK\r\n:%d\r\n", most+1))
	// A pipeline of small ones isn't read faster than it runs.
	many := w.as(2, "", "stranger")
	go func() { _, _ = many.Write(bytes.Repeat(request("PING"), 20_000)) }()
	expect(t, many, strings.Repeat("+PONG\r\n", 20_000))
	if !reached(loop.StrangerRequest, before) {
		t.Error("that wasn't counted")
	}
}

// Strangers that say nothing go; others, who do the same, stay. Who doesn't end a
// request, or doesn't read, goes too.
func TestSilentStrangers(t *testing.T) {
	const silence = 300 * time.Millisecond
	w := start(t, loop.Config{Silence: silence, Stall: silence})
	stranger, other := w.as(1, "", "stranger"), w.as(1, "", "other")
	waits := w.as(1, "", "stranger")
	write(t, waits, request("HOLD"))
	half := w.as(2, "", "known")
	write(t, half, []byte("*2\r\n$4\r\nPI"))
	deaf := w.as(3, "", "known")
	write(t, deaf, bytes.Repeat(request("BIG", "1000000"), 8))
	expectEnd(t, stranger, "")
	expectEnd(t, waits, "")
	expectEnd(t, half, "")
	until(t, "who doesn't read is gone", func() bool { return w.stats().Connections == 1 })
	alive(t, other)
	if s := w.stats(); s.Idled != 2 || s.Stalled != 2 {
		t.Errorf("%d idled, %d stalled; want 2, 2", s.Idled, s.Stalled)
	}
}

// A group with many connections keeps one with a single connection waiting for no
// more than its turn, and strangers keep nobody waiting.
func TestGroupsTakeTurns(t *testing.T) {
	for _, kind := range []string{"known", "stranger"} {
		t.Run(kind, func(t *testing.T) {
			w := start(t, loop.Config{})
			group := "crowd"
			if kind == "stranger" {
				group = ""
			}
			var crowd []net.Conn
			for n := range 200 {
				c := w.as(n, group, kind)
				write(t, c, request("NAME", "crowd"))
				expect(t, c, "+OK\r\n")
				crowd = append(crowd, c)
			}
			modest := w.as(999, "modest", "known")
			write(t, modest, request("NAME", "modest"))
			expect(t, modest, "+OK\r\n")
			let, entered := make(chan struct{}), make(chan struct{})
			w.loop.Post(func() {
				w.handler.order = nil
				close(entered)
				<-let
			})
			<-entered
			const each = 50
			for _, c := range crowd {
				write(t, c, bytes.Repeat(request("PING"), each))
			}
			write(t, modest, bytes.Repeat(request("PING"), each))
			close(let)
			expect(t, modest, strings.Repeat("+PONG\r\n", each))
			for _, c := range crowd {
				expect(t, c, strings.Repeat("+PONG\r\n", each))
			}
			w.on(func() {
				for i, who := range w.handler.order {
					if who == "modest" {
						t.Logf("it had its turn after %d of %d requests", i, len(w.handler.order))
						if i > 700 {
							t.Error("it waited for more than a turn of the crowd")
						}
						return
					}
				}
				t.Error("it had no turn")
			})
		})
	}
}

// Connections of all kinds that come, change what they stand for, are displaced,
// evicted, refused and go at any point, leave nothing behind that counts.
func TestPlacesAreReleased(t *testing.T) {
	w := start(t, loop.Config{MaxConnections: 40, MaxSource: 6, MaxGroup: 8, MaxBuffers: 24 << 20})
	r := rand.New(rand.NewPCG(3, 4))
	var conns []net.Conn
	kinds := []string{"known", "stranger", "other"}
	groups := []string{"", "a", "b", "c"}
	for n := range 1000 {
		for _, c := range conns {
			_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		}
		switch k := r.IntN(10); {
		case k < 3 || len(conns) == 0:
			conns = append(conns, w.from(r.IntN(12)))
		case k == 3 && n%7 == 0:
			conns = append(conns, w.dialTo("unix", w.admin))
		case k == 4:
			i := r.IntN(len(conns))
			_ = conns[i].Close()
			conns = append(conns[:i], conns[i+1:]...)
		case k == 5:
			_, _ = conns[r.IntN(len(conns))].Write(append([]byte("*2\r\n$3\r\nSUM\r\n$8000000\r\n"), make([]byte, r.IntN(5<<20))...))
		case k == 6:
			_, _ = conns[r.IntN(len(conns))].Write(request("BIG", strconv.Itoa(r.IntN(3<<20))))
		default:
			_, _ = conns[r.IntN(len(conns))].Write(request("STAND", groups[r.IntN(len(groups))], kinds[r.IntN(len(kinds))]))
		}
		if n%100 == 0 {
			if s := w.stats(); s.Connections > 40+loop.AdminConnections.Total {
				t.Fatalf("there are %d connections", s.Connections)
			}
		}
	}
	s := w.stats()
	t.Logf("%d accepted, %d refused, %d displaced, %d evicted", s.Accepted, s.Refused, s.Displaced, s.Evicted)
	for _, c := range conns {
		_ = c.Close()
	}
	until(t, "all are gone", func() bool { return w.stats().Connections == 0 })
	w.on(func() {
		if got := w.loop.Held(); got != [6]int64{} {
			t.Errorf("%v are held when all are gone", got)
		}
	})
}
