package source_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestACutStream(t *testing.T) {
	for name, cut := range map[string]func(h *homes, is bool){
		"silent": func(h *homes, is bool) { h.set(func() { h.mute = is }) },
		"ended":  func(h *homes, is bool) { h.set(func() { h.away = is }); h.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHomes("1-1")
			telling(t, h, func(t *testing.T, got *handled) {
				time.Sleep(30 * time.Second)
				cut(h, true)
				time.Sleep(30 * time.Second)
				for range 50 {
					h.takeAway("1-1", true)
					time.Sleep(everyLook * 6 / 5)
					if h.left() != 0 {
						t.Fatalf("it isn't back after %s", everyLook*6/5)
					}
				}
				h.takeAway("1-1", false)
				cut(h, false)
				time.Sleep(14 * time.Second)
				if h.left() != 0 {
					t.Fatal("everything isn't looked at when the stream is back")
				}
				h.takeAway("1-1", true)
				time.Sleep(time.Second)
				if h.left() != 0 {
					t.Error("what the stream tells again isn't back")
				}
			})
		})
	}
}

// A bus may greet each new reader with the last value of a module that is gone: the stream counts as cut all the same, which is
// logged once.
func TestAGreetingOfADeadModule(t *testing.T) {
	h, log := newHomes("1-1"), &syncedLog{}
	h.greets = true
	const said = "stream of changes is cut"
	tellingTo(t, zerolog.New(log), h, func(t *testing.T, _ *handled) {
		for round := range 3 {
			time.Sleep(30 * time.Second)
			h.set(func() { h.mute = true })
			time.Sleep(30 * time.Second)
			for range 100 {
				h.takeAway("1-1", false)
				time.Sleep(everyLook * 6 / 5)
				if h.left() != 0 {
					t.Fatalf("%d: it isn't back after %s: the stream counts as unbroken", round, everyLook*6/5)
				}
			}
			if n := log.count(said); n != round+1 {
				t.Errorf("%d: it is logged %d times that the stream is cut", round, n)
			}
			h.set(func() { h.mute = false })
		}
	})
}
