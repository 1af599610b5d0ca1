//go:build race

package front

// raceDetector takes more memory than any ceiling.
const raceDetector = true
