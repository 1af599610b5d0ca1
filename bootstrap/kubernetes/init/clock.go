package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// clockEvery is how often the system's clock is compared with the machine's, which is the host's.
	clockEvery = 10 * time.Minute
	// mostSkew is how far they may be apart.
	mostSkew = 2 * time.Second
)

// keepClock sets the system's clock by the machine's real-time clock when they are apart: an emulated machine's clock may run
// behind, and certificates are checked by it.
func keepClock() {
	said := false
	for {
		if err := setClock(); err != nil && !said {
			said = true
			say("cannot set the clock: %v", err)
		}
		<-time.After(clockEvery)
	}
}

func setClock() error {
	f, err := os.Open("/dev/rtc0")
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := unix.IoctlGetRTCTime(int(f.Fd()))
	if err != nil {
		return err
	}
	real := time.Date(int(r.Year)+1900, time.Month(r.Mon+1), int(r.Mday), int(r.Hour), int(r.Min), int(r.Sec), 0, time.UTC)
	apart := time.Until(real)
	if apart.Abs() <= mostSkew {
		return nil
	}
	say("the clock is set by %s", apart.Round(time.Second))
	value := unix.NsecToTimeval(real.UnixNano())
	return unix.Settimeofday(&value)
}
