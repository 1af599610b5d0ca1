// Package confine confines a process, for good: a filter of system calls for all of its threads,
// ceilings of its resources, and for a thread and what it executes no files but open ones to write (NoWrites). The process calls it itself, before it reads
// untrusted input. It knows the needs of Go's runtime; the caller adds those of the
// process's work. Supervise lets another process answer chosen system calls of a thread and of what it executes
// (Listener). Said and Printable are for the parent process, and trust nothing in
// the process's output.
package confine
