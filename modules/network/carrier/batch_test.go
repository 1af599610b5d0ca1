package carrier

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"golang.zx2c4.com/wireguard/conn"
)

// TestLetGo holds that only whole pages of a buffer are returned: what lies beside it stays as it is.
func TestLetGo(t *testing.T) {
	page := os.Getpagesize()
	for _, span := range [][2]int{{0, 4 * page}, {1, 4 * page}, {page - 1, 3*page + 1}, {100, page + 50}, {100, 200}, {page, page}, {7, 2*page + 7}} {
		owner := newPackets(0)
		memory := untouched(owner, 4*page)
		for i := range memory {
			memory[i] = 1
		}
		letGo(memory[span[0]:span[1]])
		first, last := (span[0]+page-1)/page*page, span[1]/page*page
		for i, b := range memory {
			if returned := first <= i && i < last; returned != (b == 0) {
				t.Fatalf("of %v, byte %d is %d", span, i, b)
			}
		}
		runtime.KeepAlive(owner)
	}
}

// TestBuffersAreLetGoOfOnce holds that later packets aren't lost.
func TestBuffersAreLetGoOfOnce(t *testing.T) {
	p := newPackets(coalesced)
	bufs, sizes := [][]byte{bytes.Repeat([]byte{1}, 1<<16)}, make([]int, 1)
	p.begin(bufs)
	if bufs[0][1<<15] != 0 {
		t.Error("the buffer's memory wasn't returned")
	}
	copy(p.slots[0], "hello")
	p.sizes[0] = 5
	p.filled(1)
	if n := p.hand(bufs, sizes, nil, 16); n != 1 || sizes[0] != 5 || string(bufs[0][16:21]) != "hello" {
		t.Errorf("%d packets of %d bytes: %q", n, sizes[0], bufs[0][:32])
	}
	p.begin(bufs)
	if string(bufs[0][16:21]) != "hello" {
		t.Error("a packet was let go of")
	}
	for i, slot := range p.slots {
		if want := slotSize + (1<<16-slotSize)*max(0, min(1, i-(conn.IdealBatchSize-coalesced)+1)); len(slot) != want || cap(slot) != want {
			t.Errorf("slot %d has %d bytes, want %d", i, len(slot), want)
		}
		slot[0], slot[len(slot)-1] = 1, 1
	}
}
