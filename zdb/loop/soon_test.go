package loop_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/zdb/loop"
)

// A handler that has something to do soon doesn't wait for the tick that it asked
// for before it knew. Idle rounds tick too, but a second apart.
func TestTickBy(t *testing.T) {
	w := start(t, loop.Config{})
	conn := w.dial()
	const times = 4
	for n := range times {
		write(t, conn, request("SOON"))
		expect(t, conn, "+OK\r\n")
		until(t, "a tick", func() (came bool) {
			w.on(func() { came = len(w.handler.late) > n })
			return came
		})
	}
	w.on(func() {
		for _, late := range w.handler.late {
			if late > 700*time.Millisecond {
				t.Errorf("ticks came %v after they were asked for in 10ms", w.handler.late)
			}
		}
	})
}

func TestTrafficCountsAllConnections(t *testing.T) {
	w := start(t, loop.Config{})
	one, other := w.dial(), w.dial()
	write(t, one, request("PING"))
	expect(t, one, "+PONG\r\n")
	// PING has 14 bytes, TRAFFIC 17; PONG has 7.
	write(t, other, request("TRAFFIC"))
	expect(t, other, "+31 7\r\n")
	write(t, one, request("TRAFFIC"))
	expect(t, one, "+48 14\r\n")
}
