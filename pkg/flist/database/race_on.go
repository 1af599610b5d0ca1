//go:build race

package database

import "os"

const raceDetector = true

// raceOptions are the race detector's options of this process, as variables for another one.
func raceOptions() []string { return []string{"GORACE=" + os.Getenv("GORACE")} }
