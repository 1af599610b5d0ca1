// Package drift holds what is on the node against the records: the differences, what
// was noticed of them since the start, and the orphans. It decides nothing and calls
// no module: the engine does. On disk it owns the file of the orphans.
package drift
