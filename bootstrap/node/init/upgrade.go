package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/slots"
	"github.com/croft-edge/croft/internal/guest"
)

const (
	// trialTime is how long a node may take to be ready on an image that is tried.
	trialTime = 5 * time.Minute
	rebootHow = unix.LINUX_REBOOT_CMD_RESTART
	// trialParameter is on the kernel's command line when GRUB boots an image for a trial.
	trialParameter = "croft.trial"
	// readyMark tells process 1 that the node was ready in this boot.
	readyMark = runAt + "/ready"
)

// images are the images on the boot medium: the one that runs, and the one beside it.
type images struct {
	*journal
	*events
	power *power
	// slot is that of the running image; empty where the network brought it. trial tells that this boot is the trial of another image.
	slot  string
	trial bool
	// source is where images are looked for, and every how often; empty for nowhere.
	source string
	every  time.Duration
}

// images are those of the machine.
func (m *machine) images() *images {
	return &images{
		journal: m.journal, events: m.events, power: m.power, slot: m.slot, trial: m.slot != "" && m.line.Has(trialParameter),
		source: m.settings.Node.Upgrade, every: m.settings.Node.UpgradeEvery,
	}
}

// boundTrial starts the machine again, with the old image, if this boot is a trial and the node isn't ready in time. Where init was started again in a
// boot in which the node was ready already, the trial is over.
func (m *images) boundTrial(ctx context.Context) {
	if !m.trial || isTrialOver(readyMark) {
		return
	}
	m.once(ctx, "trial", func(ctx context.Context) error {
		left := trialTime - time.Duration(guest.UptimeSeconds()*float64(time.Second))
		select {
		case <-ctx.Done():
		case <-m.wasReady:
		case <-after(left):
			m.power.end("this image isn't ready after "+trialTime.String()+": the old one boots again", rebootHow)
		}
		return nil
	})
}

// medium is the boot medium; an error if the network brought the image.
func (m *images) medium() (slots.Medium, error) {
	if m.slot == "" {
		return slots.Medium{}, errors.New("cannot change the image: the network brings it, from its server")
	}
	key, err := imageKey()
	return slots.Medium{Root: bootAt, Slot: m.slot, Writable: bootWritable, Key: key}, err
}

// keepRunning makes the running image the one that boots, and says what became of a trial.
func (m *images) keepRunning() error {
	if m.slot == "" {
		return nil
	}
	medium, err := m.medium()
	if err != nil {
		return err
	}
	outcome, err := medium.Look(m.trial)
	if err != nil {
		return err
	}
	switch outcome {
	case slots.None:
		return nil
	case slots.Running:
		m.say("the new image is ready, and is kept")
		return medium.Keep()
	case slots.Failed:
		return errors.New("the last new image didn't become ready: it isn't tried again")
	}
	return nil
}

// keepUpgraded looks for another image from time to time, where the settings say so.
func (m *images) keepUpgraded(ctx context.Context) {
	if m.source == "" {
		return
	}
	m.keep(ctx, "upgrade", func(ctx context.Context) error {
		for {
			// Nodes of one farm neither ask nor start again all at once.
			every := m.every
			wait := every/2 + time.Duration(rand.Int64N(int64(every))) //nolint:gosec // no secret
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-m.upgrades.next():
			case <-after(wait):
			}
			m.wrong(aboutUpgrade, m.upgrade(ctx))
		}
	})
}

// upgrade fetches another image if there is one, and starts the machine again with it.
func (m *images) upgrade(ctx context.Context) error {
	if m.trial && !m.ready() {
		return nil // this image has to show itself first
	}
	medium, err := m.medium()
	if err != nil {
		return err
	}
	if medium.Key == nil && !isPrivate(m.source) {
		return errors.New("cannot upgrade: no key of images is built in, and the address of images isn't https")
	}
	image, err := medium.Install(ctx, slots.Server{URL: m.source})
	if errors.Is(err, slots.ErrNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := medium.Try(); err != nil {
		return err
	}
	m.power.end("image "+image.Version+" is installed, and is tried now", rebootHow)
	return nil
}

// isPrivate reports whether an address is read over a connection that nobody else can change.
func isPrivate(address string) bool { return len(address) > 8 && address[:8] == "https://" }

// ready reports whether the node was ready in this boot.
func (e *events) ready() bool {
	select {
	case <-e.wasReady:
		return true
	default:
		return false
	}
}
