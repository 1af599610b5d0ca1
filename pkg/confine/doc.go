// Package confine shuts a process in: a filter of system calls that holds for all of
// its threads, for good, and ceilings of what it takes. The process calls it of itself, before it
// reads anything that somebody else wrote. It knows what Go's runtime needs; what the
// process's work needs beside, its caller says. Said and Printable are for who has started it, and
// believes nothing that it says.
package confine
