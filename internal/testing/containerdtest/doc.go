// Package containerdtest gives tests a containerd of their own, in a temporary folder, and removes it
// with everything that it started: processes, mounts, control groups. It touches no other containerd of
// the machine.
package containerdtest
