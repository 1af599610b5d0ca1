// Package managed holds the containers in the hands of a container module: their records, on disk and in
// memory, one change at a time of each, and when each is started again.
//
// It owns {run}/supervised/ID.json. What a record's numbers mean for the next start is decided by pure
// functions of it, in restart.go.
package managed
