//go:build !race

package confine

// RaceDetector is whether this program has Go's race detector, which takes terabytes of addresses: no ceiling of memory fits it.
const RaceDetector = false

// RaceOptions are the race detector's options of this process, as variables for another one.
func RaceOptions() []string { return nil }
