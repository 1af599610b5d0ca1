// Package reap starts processes and collects all that end: its own and any orphans. It owns every child
// of the process: no other code in it may wait for one.
package reap
