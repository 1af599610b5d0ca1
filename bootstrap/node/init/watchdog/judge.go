// Package watchdog ends the sleep of a node whose engine is stuck: first its process is started again, then the machine. A machine that
// hangs altogether is started again by the hardware, or by the kernel where there is none for it.
package watchdog

import "time"

// Times of a Judge.
const (
	// restartAfter is how long the engine may be stuck before its process is started again, rebootAfter before the machine is.
	restartAfter = 2 * time.Minute
	rebootAfter  = 10 * time.Minute
	// longestGap is how long a process that was ended may take to start again. One that takes longer isn't stuck any more: it ends by itself.
	longestGap = time.Minute
	// firstReboot is how long after its start a machine is left running whose engine has never turned: starting it again didn't help, and its
	// operator should find it running.
	firstReboot = time.Hour
)

// Action is what a Judge wants.
type Action int

// Actions.
const (
	Nothing Action = iota
	// RestartEngine: the engine's process is to be killed. It is started again.
	RestartEngine
	// Reboot: the machine is to be started again.
	Reboot
)

// Judge decides from what was seen of the engine what is to be done. The zero Judge has seen nothing.
type Judge struct {
	// turned tells that the engine has turned since the machine's start.
	turned bool
	// stuckSince is when it was first seen stuck; zero while it turns. restarted is when its process was last ended for that.
	stuckSince, restarted time.Time
	// ended is the ID of its process that was to be ended, until another one was seen running; 0 if there is none. One may die long after it was killed: its
	// disk is slow. seen is when the engine was last seen running.
	ended int
	seen  time.Time
}

// See takes what was seen at a time: the ID of the engine's process, 0 while none runs, whether the engine turns, and the time since the machine's start. An engine
// whose process doesn't run isn't stuck: it is started again anyway, and starting the machine again wouldn't mend it. The gap after a process that was ended because it was stuck
// forgives nothing.
func (j Judge) See(now time.Time, uptime time.Duration, pid int, turns bool) (Judge, Action) {
	if pid == 0 && j.ended != 0 && now.Sub(j.seen) <= longestGap {
		return j, Nothing
	}
	if turns || pid == 0 {
		return Judge{turned: j.turned || turns}, Nothing
	}
	if j.seen = now; pid != j.ended {
		j.ended = 0
	}
	if j.stuckSince.IsZero() {
		j.stuckSince, j.restarted = now, now
		return j, Nothing
	}
	if now.Sub(j.stuckSince) >= rebootAfter && (j.turned || uptime >= firstReboot) {
		return j, Reboot
	}
	if now.Sub(j.restarted) >= restartAfter {
		j.restarted, j.ended = now, pid
		return j, RestartEngine
	}
	return j, Nothing
}

// StuckFor is how long the engine was stuck at a time; 0 while it turns.
func (j Judge) StuckFor(now time.Time) time.Duration {
	if j.stuckSince.IsZero() {
		return 0
	}
	return now.Sub(j.stuckSince)
}
