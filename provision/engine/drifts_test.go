package engine

import (
	"strconv"
	"testing"
	"time"
)

// What is remembered of an end costs the same however many there are: the engine's
// thread notes one for each effect.
func TestEndsCostTheSameHoweverManyThereAre(t *testing.T) {
	took := func(n int) time.Duration {
		best := time.Hour
		for range 3 {
			d, began := newDrifts(), time.Now()
			for i := range n {
				d.settled(strconv.Itoa(i))
			}
			best = min(best, time.Since(began)/time.Duration(n))
		}
		return best
	}
	if few, many := took(endsMost), took(8*endsMost); many > 10*few {
		t.Errorf("one costs %s among %d, %s among %d", few, endsMost, many, 8*endsMost)
	}
}
