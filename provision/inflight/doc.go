// Package inflight decides which effect may start when: conflicting effects run in
// the order in which they were requested, others side by side, within the slots of
// their type, fair between users. It is a plain data structure: it starts nothing,
// and is for one goroutine.
package inflight
