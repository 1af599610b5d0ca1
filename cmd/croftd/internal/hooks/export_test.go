package hooks

import "time"

// Look is a look at the clock.
func (r *Runner) Look(now time.Time, set time.Duration) time.Duration { return r.look(now, set) }
