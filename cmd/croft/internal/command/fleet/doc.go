// Package fleet has the commands on farms and nodes as the explorer shows them, and on
// the counters of the node of this machine.
package fleet
