// Package cgroup finds, makes, limits, fills and removes control groups, of version
// 1 and 2, and reads the kernel's events in them. Beside it only runc writes to
// the cgroup file systems, which makes containers' own groups.
//
// A group is a folder in each hierarchy: one in version 2, one a controller in
// version 1. Trying shows which controllers there are: a limit holds when the kernel
// has accepted it, and is reported as missing otherwise. A missing limit never is a
// reason to stop.
package cgroup
