package managed

import (
	"time"

	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/pkg/backoff"
)

const (
	// firstPause and lastPause bound the pause before a container that ended by itself is started
	// again. It doubles with each restart, until the container has run for stableTime.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Minute
	stableTime = time.Minute
)

// AfterMake is the record of a container that was made of a plan, and isn't started. The history of the
// one before it stays.
func AfterMake(old Record, p plan.Plan) Record {
	old.ID, old.User, old.Hash, old.Root = p.Root.ID, p.Root.User, p.Spec.Hash, p.Root
	old.Wanted, old.Started, old.Next, old.Pause, old.Cause = false, 0, 0, 0, ""
	return old
}

// AfterStart is the record of a container that was started.
func AfterStart(r Record, now time.Time) Record {
	if r.Started != 0 {
		r.Restarts++
	}
	r.Wanted, r.Started, r.Next, r.Cause = true, now.UnixNano(), 0, ""
	return r
}

// AfterExit is the record of a container that ended by itself at a time, with the next start
// scheduled. OOM and LastLog are the caller's to fill in.
func AfterExit(r Record, code uint64, at, now time.Time) Record {
	if r.Started != 0 && at.Sub(time.Unix(0, r.Started)) >= stableTime {
		r.Pause = 0
	}
	r.ExitCode, r.Ended, r.Cause, r.OOM = code, at.UnixNano(), "", ""
	return scheduled(r, now)
}

// AfterFailedRestart is the record of a container whose restart failed, with the next one scheduled.
func AfterFailedRestart(r Record, cause string, now time.Time) Record {
	r.Cause = cause
	return scheduled(r, now)
}

func scheduled(r Record, now time.Time) Record {
	r.Pause = min(max(2*r.Pause, firstPause), lastPause)
	r.Next = now.Add(backoff.Around(r.Pause)).UnixNano()
	return r
}

// Due is the time left to the next start. A clock that was set back doesn't extend it.
func Due(r Record, now time.Time) time.Duration {
	left := time.Unix(0, r.Next).Sub(now)
	if left > 2*lastPause {
		return 0
	}
	return max(left, 0)
}
