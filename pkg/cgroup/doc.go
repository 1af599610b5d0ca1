// Package cgroup gives processes that outlive the agent control groups of their
// own, of version 1 and 2: beside the agent's, so that who ends the agent's
// group doesn't end theirs. It owns the groups of the names that it is given,
// and no other.
package cgroup
