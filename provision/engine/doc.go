// Package engine is the one door to the node: every change of the node goes
// through it. One thread owns every decision and every record: it writes the
// intent, has the effect carried out on another goroutine, and takes the outcome
// as an event. Package lifecycle decides what an event means for a record.
package engine
