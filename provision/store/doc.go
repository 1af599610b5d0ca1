// Package store remembers what this node has: one record a workload, on disk,
// written whole. Feedback's outbox and the counters are queries on the
// records. It decides nothing and reaches nothing but its folder.
package store
