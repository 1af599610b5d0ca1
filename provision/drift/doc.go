// Package drift compares the workloads on the node with the records: the
// differences, their history since the start, and the orphans. It decides nothing
// and calls no module: the engine does. On disk it owns the file of the orphans.
package drift
