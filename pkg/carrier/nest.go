package carrier

import (
	"os"
	"path/filepath"
	"strconv"
)

// Nest moves this process to control groups of that name below those that it
// is in, one deeper than it needs: the groups that carriers make beside the
// agent's then lie within. It is for tests; leave undoes it.
func Nest(name string) (leave func(), err error) {
	all, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		outer := filepath.Join(h.Group, name)
		_ = os.MkdirAll(outer, 0o755)
		if hasAll(h.controllers, "cpuset") {
			inherit(outer, "cpuset.cpus", "cpuset.mems")
		}
		_ = h.enter(filepath.Join(outer, "agent"), os.Getpid())
	}
	return func() {
		for _, h := range all {
			_ = write(filepath.Join(h.Group, "cgroup.procs"), strconv.Itoa(os.Getpid()))
			_ = os.Remove(filepath.Join(h.Group, name, "agent"))
			_ = os.Remove(filepath.Join(h.Group, name))
		}
	}, nil
}
