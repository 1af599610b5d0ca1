//go:build race

package front

// raceDetector takes more memory than any limit allows.
const raceDetector = true
