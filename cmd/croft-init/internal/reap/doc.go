// Package reap starts processes and collects all that end, those it started and
// orphans of anybody. It owns every child of the process: nothing else in it may
// wait for one.
package reap
