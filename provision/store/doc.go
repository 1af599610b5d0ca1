// Package store keeps the node's records on disk: one record per reservation, written
// whole. Feedback's outbox and the counters are queries on the records. It makes no
// decisions and touches only its own folder.
package store
