// Package saturate adds and subtracts sizes without wrapping around. It owns nothing.
package saturate

import "math"

// Add is a + b, at most the largest uint64.
func Add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// Sub is a - b, at least 0.
func Sub(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
