// Package containerdtest gives tests a containerd of their own, in a temporary
// folder, and takes it down with all that it started: processes, mounts,
// control groups. It touches no other containerd of the machine.
package containerdtest
