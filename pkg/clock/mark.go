package clock

import "time"

// Mark is a trusted time as it is recorded: when the machine had been up for
// Boot in the boot of that ID, it was Time. Within one boot it also tells
// whether the wall clock has jumped since.
type Mark struct {
	Time time.Time `json:"time"`
	// Boot is CLOCK_BOOTTIME, nanoseconds.
	Boot   time.Duration `json:"boot"`
	BootID string        `json:"boot_id"`
}
