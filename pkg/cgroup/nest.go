package cgroup

import (
	"os"
	"path/filepath"
)

// Nest moves this process to control groups of that name below its present ones, one
// level deeper than needed: the groups that carriers make beside the agent's then lie
// within. It is for tests; leave undoes it.
func Nest(name string) (leave func(), err error) {
	all, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		outer := filepath.Join(h.Group, name)
		_ = place{h, outer}.make()
		agent := place{h, filepath.Join(outer, "agent")}
		if agent.make() == nil {
			_ = agent.enter(os.Getpid())
		}
	}
	return func() {
		for _, h := range all {
			_ = place{h, h.Group}.enter(os.Getpid())
			_ = os.Remove(filepath.Join(h.Group, name, "agent"))
			_ = os.Remove(filepath.Join(h.Group, name))
		}
	}, nil
}
