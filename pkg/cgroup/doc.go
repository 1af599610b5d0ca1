// Package cgroup finds, makes, limits, fills and removes control groups, of version
// 1 and 2, and reads what the kernel did in them. Nothing else in croft writes to
// the cgroup file systems but runc, which makes containers' own groups.
//
// A group is a folder in each hierarchy: one in version 2, one a controller in
// version 1. Which controllers there are is found out by trying: a limit holds
// when the kernel has taken it, and is named as missing when it hasn't. What is
// missing is never a reason not to go on.
package cgroup
