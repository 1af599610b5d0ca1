// Package inflight decides which effect may start when: what conflicts goes in
// the order in which it was asked for, what doesn't goes side by side, within
// the slots of its type, fair between users. It is a plain data structure: it
// starts nothing, and is for one goroutine.
package inflight
