//go:build !race

package front

const raceDetector = false
