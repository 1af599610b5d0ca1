// Package feedback gets the node's answers to the explorer. It is a query on the
// records, in its own goroutine: undelivered results are signed and sent until the
// explorer has them, however long that takes. It owns no state that a restart
// would lose.
package feedback
