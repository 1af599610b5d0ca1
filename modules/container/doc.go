// Package container is the module of users' containers. On the bus it is
// container.container and container.image.
//
// It owns on the node:
//
//   - {run}/container.lock: locked while a module is open, or while containers are
//     taken down.
//   - {run}/supervised/ID.json (package managed): a container's specification and state: its
//     restarts, its last exit. For as long as the machine is up.
//   - {run}/exec (package execs): the FIFOs of execs.
//   - {run}/container/ID (package rootfs): a container's namespaces and mounts, which are
//     made before it and outlive its processes.
//   - {run}/container/runc: the state of this node's runc.
//   - {state}/runc (package runc): the script by which containerd starts it.
//   - the containerd namespace of each user, and in it a container named by its
//     reservation, with croft's labels.
//   - the control groups of containers (package groups).
//   - logs (package logs) and images (package image).
//
// The parts: a specification is checked and planned (package plan); creator compares the plan with
// the container that exists, and builder makes missing parts; launcher (package launch) makes the
// task and starts it; supervisor (package supervise) starts it again when it ends by itself; remover
// removes the container; sweeper removes remains of earlier processes; viewer shows it. All of them
// change a container only while they hold it (package managed), and find it in containerd by package
// tasks. Streams serve a container's log and execs to its owner.
//
// Create has the container's task prepared beside: a process of runc's waits in it until
// Start. A task that an earlier process of the module has prepared is made anew.
//
// A container's processes belong to its shim. The end of the agent, whatever its
// cause, doesn't touch them; the next agent finds them by their labels, and those that have ended
// meanwhile by their tasks. The same holds for the end of containerd.
//
// The module may not decide whether a container is wanted: the engine does. It decides alone
// only to start containers again.
package container
