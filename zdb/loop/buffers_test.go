package loop

import "testing"

func TestBuffersAreOfTheSizeAskedFor(t *testing.T) {
	var p buffers
	for size := 1; size < 20<<20; size += 1 + size/50 {
		b := p.get(size)
		if len(b) != 0 || cap(b) < size || cap(b) > max(leastBuffer, size+size/4+1) {
			t.Fatalf("a buffer for %d bytes has %d of %d", size, len(b), cap(b))
		}
		// A returned buffer is given to the next request, though it is a little larger.
		p.put(b[:0:cap(b)])
		if again := p.get(size); cap(again) != cap(b) {
			t.Fatalf("given back was one of %d bytes, had is one of %d", cap(b), cap(again))
		}
	}
}

func TestBuffersOfOddSizes(t *testing.T) {
	var p buffers
	for _, size := range []int{leastBuffer, 5000, 5119, 5120, 6000, 70_001, 1<<20 - 1, 1<<20 + 1} {
		p.put(make([]byte, 0, size))
		for n := size - size/3; n <= size; n += 7 {
			b := p.get(n)
			if cap(b) < n {
				t.Fatalf("a buffer for %d bytes has %d", n, cap(b))
			}
			p.put(b)
		}
	}
}

func TestFewBuffersAreKept(t *testing.T) {
	var p buffers
	for range 100 {
		p.put(make([]byte, 0, 1<<20))
	}
	if p.size != pooled {
		t.Errorf("%d bytes are kept, want %d", p.size, pooled)
	}
	p.put(make([]byte, 0, 10))
	if p.size != pooled {
		t.Error("a tiny one is kept")
	}
	// Unused buffers are freed, by and by.
	for range 20 {
		p.trim()
	}
	if p.size != 0 {
		t.Errorf("%d bytes are still kept", p.size)
	}
}

func TestBuffersInUseArentTrimmed(t *testing.T) {
	var p buffers
	var all [][]byte
	for range 8 {
		all = append(all, p.get(leastBuffer))
	}
	for _, b := range all {
		p.put(b)
	}
	p.trim()
	for range 10 {
		var used [][]byte
		for range 8 {
			used = append(used, p.get(leastBuffer))
		}
		for _, b := range used {
			p.put(b)
		}
		before := p.size
		p.trim()
		if p.size != before {
			t.Fatalf("%d bytes are left of %d that are in use all the time", p.size, before)
		}
	}
}
