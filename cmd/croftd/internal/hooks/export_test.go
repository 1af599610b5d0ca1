package hooks

import (
	"time"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// Look is a look at the clock.
func (r *Runner) Look(now time.Time, set time.Duration) time.Duration { return r.look(now, set) }

// FindGroups has control groups found by beside. It is to be called before Run.
func (r *Runner) FindGroups(beside func(name string) (cgroup.Group, error)) {
	r.programs.beside = beside
}
