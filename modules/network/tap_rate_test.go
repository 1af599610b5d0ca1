package network_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/frame"
	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// areTapRates fails unless both VMs' taps are held to the rates, or to none.
func (w *tapped) areTapRates(want network.Rate) {
	w.t.Helper()
	got := (&rated{&household{fixture: w.fixture}}).rates(w.info.Namespace)
	for _, g := range []*guest{w.guest, w.neighbour} {
		if have := (network.Rate{Send: got["i"+g.Device[1:]], Receive: got[g.Device]}); have != want {
			w.t.Errorf("the tap of %s has the rates %+v, want %+v", g.VM, have, want)
		}
	}
}

// TestTapRates: those of the settings hold for taps; a difference is told and mended.
func TestTapRates(t *testing.T) {
	t.Parallel()
	rate := network.Rate{Send: testRate, Receive: 2 * testRate}
	w := newTapped(t, newFixture(t, func(c *network.Config) { c.Rate = rate }))
	echo(t, w.place, 7)
	w.areTapRates(rate)
	for command, says := range map[string]string{
		"tc qdisc del dev T root": "link " + w.guest.Device + " isn't held to",
		"tc qdisc del dev I root": "link i" + w.guest.Device[1:] + " isn't held to",
	} {
		w.damage(command)
		w.mended(says, false)
		w.areTapRates(rate)
	}
	for _, next := range []network.Rate{{Send: 2 * testRate}, {Receive: testRate}, {}, rate} {
		w.cfg.Rate = next
		w.restart()
		if w.tap("8-1").Drift == "" {
			t.Errorf("%+v isn't what the tap is held to, and nothing is told", next)
		}
		for _, vm := range []string{"8-1", "9-1"} {
			w.setup(vm)
		}
		w.areTapRates(next)
	}
}

// A flood of frames, in bytes and bytes a second.
const (
	floodRate   = network.LeastRate
	floodRoom   = 2 * 128 << 10 // what passes at once, and what is queued
	floodSize   = 1400
	floodFrames = 3000
)

// holdsFlood fails unless few bytes of a flood have passed when its end arrives, which
// ended sends until it does.
func holdsFlood(t *testing.T, flood func(), ended func() bool, bytes func() int) {
	t.Helper()
	before, began := bytes(), time.Now()
	flood()
	for !ended() {
		if time.Since(began) > 5*patience {
			t.Fatal("the flood doesn't end")
		}
	}
	took := time.Since(began)
	passed := bytes() - before
	if most := floodRoom + int(took.Seconds()*floodRate) + 4*floodSize; passed > most || passed < floodSize {
		t.Errorf("%d bytes passed in %s, want at most %d", passed, took, most)
	}
	t.Logf("%d of %d bytes passed in %s", passed, floodFrames*floodSize, took)
}

// TestTapRatesHold: a VM that sends what it can is held to its rate on the node's side,
// and one that is flooded too. The bounds hold on a busy machine.
func TestTapRatesHold(t *testing.T) {
	text := strings.Repeat("x", floodSize-60)
	t.Run("send", func(t *testing.T) {
		w := newTapped(t, newFixture(t, func(c *network.Config) { c.Rate.Send = floodRate }))
		to, end := w.memberMAC(), w.token()
		holdsFlood(t, func() {
			for range floodFrames {
				w.guest.send(w.guest.udp4(to, w.member.IPv4, 9, text))
			}
		}, func() bool {
			w.guest.send(w.guest.udp4(to, w.member.IPv4, 9, end))
			return w.wire.Sees(time.Second, end) != ""
		}, func() int { return w.received() })
	})
	t.Run("receive", func(t *testing.T) {
		w := newTapped(t, newFixture(t, func(c *network.Config) { c.Rate.Receive = floodRate }))
		end, bytes := w.token(), 0
		var conn net.Conn
		err := netns.Do(w.place, func() (err error) {
			conn, err = net.Dial("udp", net.JoinHostPort(w.guest.IPv4, "9"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		w.guest.finds(w.member.IPv4) // so that the container knows where it is
		write := func(text string) { _, _ = conn.Write(frame.Mark(text)) }
		holdsFlood(t, func() {
			for range floodFrames {
				write(text)
			}
		}, func() bool {
			write(end)
			return w.guest.receive(time.Second, func(f []byte) bool {
				w.guest.answer(f)
				bytes += len(f)
				return hasText(f, end)
			})
		}, func() int { return bytes })
	})
}

// TestATapTheKernelCannotCheck wants an error that names the kernel's modules.
func TestATapTheKernelCannotCheck(t *testing.T) {
	for _, lacks := range []error{unix.ENOENT, unix.EOPNOTSUPP} {
		err := links.CannotLead(lacks)
		if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "ifb, sch_ingress, cls_u32, act_mirred") {
			t.Errorf("%v: %v", lacks, err)
		}
	}
	if err := links.CannotLead(nil); err != nil {
		t.Error(err)
	}
}

// received is the number of bytes that the container has received.
func (w *tapped) received() (bytes int) {
	w.t.Helper()
	inside(w.t, w.place)(func() {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			w.t.Error(err)
			return
		}
		bytes = int(l.Attrs().Statistics.RxBytes)
	})
	return bytes
}
