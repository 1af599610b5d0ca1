// Package containers has the commands that speak to the node of a running container:
// its output, a command in it, what it uses.
package containers
