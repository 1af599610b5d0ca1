package clock

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// behind is how far a clock that had to be set forward stays behind what has certainly passed.
	behind = 24 * time.Hour
	// storeEvery is how often the time is stored.
	storeEvery = time.Hour
	// mostStored bounds the file of the last time, in bytes.
	mostStored = 64
)

// Past is the file with the last time that was certainly right, and the time at which the image's programs were built.
type Past struct {
	File  string
	Build time.Time
	// Tests have a clock of their own.
	now    func() time.Time
	set    func(time.Time) error
	synced func() (bool, error)
}

// NewPast makes the knowledge of times that have passed. build may be zero.
func NewPast(file string, build time.Time) *Past {
	return &Past{File: file, Build: build, now: time.Now, set: setClock, synced: Synced}
}

// Raise sets a clock forward that is certainly wrong: of a machine whose battery is empty, it starts in 1970 or in the year of its
// firmware. With such a clock no certificate is valid, and a node that reaches its explorer but no NTP server could never ask it anything.
// It is to be called once, before croftd starts. It reports whether the clock was set; an unreadable file is
// an error beside that.
//
// croft's engine calls a clock wrong that is before its program was built, or before a time that had passed: it judges no date by it (level none,
// docs/adr/0016-time.md). A clock that is set to what has passed would look right to it and still be as far behind as the machine was off: dates would be
// judged by it, and expired reservations accepted. So it is set to a day before, which is enough for certificates and stays wrong in the
// engine's eyes. For the same reason only a time is stored that the kernel called right: the engine knows that time too then.
func (p *Past) Raise() (bool, error) {
	passed := p.Build
	stored, err := p.read()
	if err == nil && stored.After(passed) {
		passed = stored
	}
	if passed.IsZero() || !p.now().Before(passed.Add(-behind)) {
		return false, err
	}
	if failed := p.set(passed.Add(-behind)); failed != nil {
		return false, failed
	}
	return true, err
}

func (p *Past) read() (time.Time, error) {
	raw, err := os.ReadFile(p.File)
	if os.IsNotExist(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, errors.Wrap(err, "cannot read the last time")
	}
	text := strings.TrimSpace(string(raw[:min(len(raw), mostStored)]))
	at, err := time.Parse(time.RFC3339, text)
	return at, errors.Wrapf(err, "cannot read the last time in %s: it must be a date and time such as 2026-01-02T15:04:05Z", p.File)
}

// Store stores the time if the kernel calls the clock right. It is to be called before the machine is switched off; Keep calls it each hour.
func (p *Past) Store() error {
	synced, err := p.synced()
	if err != nil || !synced {
		return err
	}
	return atomicfile.WriteFile(p.File, []byte(p.now().UTC().Format(time.RFC3339)+"\n"), 0o600)
}

// Keep stores the time each hour until ctx is done, and then once more. A failure is logged: the time before is still right.
func (p *Past) Keep(ctx context.Context, log zerolog.Logger) error {
	ticker := time.NewTicker(storeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return p.Store()
		case <-ticker.C:
			if err := p.Store(); err != nil {
				log.Warn().Err(err).Msg("the time isn't stored")
			}
		}
	}
}

func setClock(to time.Time) error {
	spec, err := unix.TimeToTimespec(to)
	if err != nil {
		return errors.Wrapf(err, "cannot set the clock to %s", to)
	}
	return errors.Wrapf(unix.ClockSettime(unix.CLOCK_REALTIME, &spec), "cannot set the clock to %s", to)
}
