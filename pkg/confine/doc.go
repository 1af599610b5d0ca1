// Package confine confines a process: a filter of system calls for all of its threads,
// for good, and ceilings of its resources. The process calls it itself, before it reads
// untrusted input. It knows the needs of Go's runtime; the caller adds those of the
// process's work. Said and Printable are for the parent process, and trust nothing in
// the process's output.
package confine
