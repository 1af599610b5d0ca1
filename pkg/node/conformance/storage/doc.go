// Package storage holds the suites that every implementation of the contracts Storage
// and VDisks must pass.
package storage
