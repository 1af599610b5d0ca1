package carrier

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.zx2c4.com/wireguard/conn"
)

func TestAFullWindowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(2, time.Second)
		began := time.Now()
		w.take(1)
		w.wait()
		w.take(1)
		if time.Since(began) != 0 {
			t.Error("a window with room waits")
		}
		go func() {
			<-time.After(300 * time.Millisecond)
			w.free(1)
		}()
		w.wait()
		if got := time.Since(began); got != 300*time.Millisecond {
			t.Errorf("room came after 300ms, it waited %s", got)
		}
		w.take(1)
		w.wait()
		if got := time.Since(began); got != 1300*time.Millisecond || w.held != 0 {
			t.Errorf("what was dropped holds it for %s, with %d left", got, w.held)
		}
		w.free(5)
		if w.held != 0 {
			t.Errorf("what wasn't counted leaves %d", w.held)
		}
	})
}

func TestPacketsAreHandedOnInBatches(t *testing.T) {
	p := newPackets(0)
	for i := range 5 {
		p.sizes[i] = copy(p.slots[i], fmt.Sprint("packet", i))
		p.endpoints[i] = &conn.StdNetEndpoint{}
	}
	p.filled(5)
	var got []string
	for !p.empty() {
		bufs, sizes, ends := [][]byte{make([]byte, 16), make([]byte, 16)}, make([]int, 2), make([]conn.Endpoint, 2)
		n := p.hand(bufs, sizes, ends, 4)
		for i := range n {
			got = append(got, string(bufs[i][4:4+sizes[i]]))
			if ends[i] == nil {
				t.Error("an endpoint is lost")
			}
		}
		if n == 0 {
			t.Fatal("none is handed on")
		}
	}
	if want := []string{"packet0", "packet1", "packet2", "packet3", "packet4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
