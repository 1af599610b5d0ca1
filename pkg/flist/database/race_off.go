//go:build !race

package database

// raceDetector is whether this program has Go's race detector, which takes
// terabytes of addresses.
const raceDetector = false

// raceOptions are the race detector's options, where there is one.
func raceOptions() []string { return nil }
