package spec

// Probe says where Detect looks; empty fields mean the machine's own.
type Probe struct {
	// Cgroups is where the cgroup file systems are, Proc and Sys those two.
	Cgroups, Proc, Sys string
}

// Detect finds out what this machine can hold a container to. It makes a
// cgroup, tries each limit in it, and removes it again.
func Detect(p Probe) (Host, error) {
	return Host{}, nil
}
