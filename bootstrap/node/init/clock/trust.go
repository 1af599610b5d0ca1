package clock

import (
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Trusted is what the kernel says of its clock.
type Trusted struct {
	// Synced is whether something keeps it right. MaxError is how far it is off at most, then.
	Synced   bool
	MaxError time.Duration
}

// Trust asks the kernel about its clock.
func Trust() (Trusted, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Trusted{}, errors.Wrap(err, "cannot ask the kernel about its clock")
	}
	return Trusted{
		Synced:   state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
		MaxError: time.Duration(t.Maxerror) * time.Microsecond,
	}, nil
}
