package clock

import "time"

// The bounds of the explorer's word.
const (
	// Agreement is the largest difference between two clocks that agree.
	Agreement = 5 * time.Minute
	// Answers is the number of answers that make the explorer's word, Span the least
	// time between the first and the last of them.
	Answers = 3
	Span    = time.Minute
	// Silence is how long the explorer may give no answer before its answers are
	// counted from the first again.
	Silence = time.Hour
)

// word is the explorer's answers that agree with each other. Each states a zero:
// the time of the machine's boot by the explorer's clock.
type word struct {
	count       int
	first, last time.Duration
	// low and high are the earliest and the latest zero, newest the last answer's.
	low, high, newest time.Time
}

// add takes an answer that came at a time since boot. One that doesn't agree with
// all before it begins a new word.
func (w word) add(zero time.Time, at time.Duration) word {
	if w.count == 0 || at-w.last > Silence {
		return newWord(zero, at)
	}
	next := word{count: w.count + 1, first: w.first, last: at, low: w.low, high: w.high, newest: zero}
	if zero.Before(next.low) {
		next.low = zero
	}
	if zero.After(next.high) {
		next.high = zero
	}
	if next.high.Sub(next.low) > Agreement {
		return newWord(zero, at)
	}
	return next
}

func newWord(zero time.Time, at time.Duration) word {
	return word{count: 1, first: at, last: at, low: zero, high: zero, newest: zero}
}

// given reports whether the answers are enough to be believed.
func (w word) given() bool { return w.count >= Answers && w.last-w.first >= Span }
