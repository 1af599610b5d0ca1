//go:build race

package discard

// raceDetector is whether this program has Go's race detector, which takes
// terabytes of addresses.
const raceDetector = true
