//go:build race

package confine

import "os"

// RaceDetector is whether this program has Go's race detector, which takes terabytes of addresses: no ceiling of memory fits it.
const RaceDetector = true

// RaceOptions are the race detector's options of this process, as variables for another one.
func RaceOptions() []string { return []string{"GORACE=" + os.Getenv("GORACE")} }
