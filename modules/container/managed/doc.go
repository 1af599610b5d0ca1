// Package managed holds the containers in the hands of a container module: their records, on disk and in
// memory, one change at a time of each, and when each is started again.
//
// It owns {run}/supervised/ID.json. Pure functions of the record, in restart.go, decide about the next
// start.
package managed
