// Package state remembers, beside a project file, which reservation belongs to
// which of its workloads.
//
// A document is written here before it is pushed. So when the answer to a push
// is lost, the same document is pushed again, and the explorer answers with the
// ID that it has already given. The file is written whole, is 0600, and one
// process at a time may hold it.
package state
