// Package logs is the process that writes containers' output to files of
// bounded size, so that it outlives the agent, the client that starts it, finds
// it and speaks to it, and the reader of its files.
//
// There is one a run folder. Below {run}/log it owns:
//
//	lock, start.lock    held by the carrier while it runs; by the process that starts one
//	pid                 its process ID, for people
//	socket              control, 0600, only for the same user
//	log, log.1          its own log, at most 1 MiB each
//	c/ID/stdout, stderr the FIFOs that a container's shim writes to
//	c/ID/*.spool        output taken from a FIFO that isn't in a file yet
//
// and below the folder for logs ID/N.log: the lines of a container, in the
// format of the CRI ("TIME stdout|stderr F|P TEXT"), N counting up.
//
// A write that a killed carrier had begun is finished by the next one: bytes move
// from a FIFO to its spool within the kernel, and each write to a file is noted
// before it begins. No line is lost or doubled.
//
// It may not know of containerd, and it reads nothing but its FIFOs.
package logs
