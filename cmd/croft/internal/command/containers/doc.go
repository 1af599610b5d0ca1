// Package containers has the commands that speak to the node of a running container:
// show its output, run a command in it, show its resource use.
package containers
