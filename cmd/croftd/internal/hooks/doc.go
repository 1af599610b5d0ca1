// Package hooks runs programs of the operator, and chores of croft's own, on a schedule and on the node's
// events. It reads the hooks' folder and owns the processes that it starts, with their control groups. It decides
// nothing about workloads, and nothing waits for it.
//
// A hook is read from one file (Parse) of a folder that only root can write (Load). A Runner starts hooks: those of
// one queue one after the other, queues beside each other.
package hooks
