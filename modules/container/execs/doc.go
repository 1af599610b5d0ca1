// Package execs runs programs in containers beside their first process, for a client that is connected
// to this process.
//
// It owns {run}/exec: the FIFOs of execs, in a folder for each process that runs any. An exec and
// such a folder have the process's name: after its death another one ends and removes them.
package execs
