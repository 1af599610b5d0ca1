package clock

import (
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Synced reports whether something keeps the kernel's clock right, by what the kernel says.
func Synced() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, errors.Wrap(err, "cannot ask the kernel about its clock")
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}
