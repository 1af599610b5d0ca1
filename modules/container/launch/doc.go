// Package launch starts containers: it makes their tasks, lets them run, and takes back a start that
// failed.
//
// A start has two parts. The first makes the task: the shim, the control groups, the container's
// mounts, and a process of runc's that waits in them. It takes most of the time and
// needs the container's namespaces, but nothing in them. The container module has Prepare do it beside,
// so that the container joins its network meanwhile. The second part lets the container's program run.
//
// It owns nothing: what a task leaves is removed by package leftovers.
package launch
