// Package container is the module of users' containers. On the bus it is
// container.container and container.image.
//
// What it owns on the node:
//
//   - {run}/container.lock: locked while a module is open, or while all is taken
//     down.
//   - {run}/supervised/ID.json: what a container was made from, and how it fares:
//     its restarts, its last exit. For as long as the machine is up.
//   - {run}/container/ID (package rootfs): its namespaces and mounts, which are
//     made before it and outlive its processes.
//   - {run}/container/runc: the state of runc, apart from everybody else's.
//   - {state}/runc: the script that becomes it.
//   - the containerd namespace of each user, and in it a container named by its
//     reservation, with croft's labels.
//   - the control group CGROUPPARENT/ID.
//   - logs (package logs) and images (package image).
//
// Create begins a container's task beside: a process of runc's waits in it until
// Start. One that an earlier process of the module has left is made anew.
//
// A container's processes belong to its shim. The agent that ends, of whatever
// cause, doesn't touch them; the next one finds them by their labels and sees
// what has ended meanwhile. The same holds for a containerd that ends.
//
// It may not decide whether something is wanted: that is the engine's. What it
// decides alone is to start again what ends by itself.
package container
