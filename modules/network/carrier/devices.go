package carrier

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/memory"
	"github.com/croft-edge/croft/pkg/node"
)

// windowLeak is how long a full window waits for a packet to come out.
const windowLeak = 2 * time.Millisecond

// Tuning is how much memory a device may use for how much speed.
type Tuning struct {
	// Batch is how many packets pass through a device at once, each in a buffer of 64 KiB.
	Batch int
	// Window is how many packets a device has in hand in each direction.
	Window int
}

// devices are all that this process holds.
type devices struct {
	tuning Tuning
	log    zerolog.Logger

	mu   sync.Mutex
	byID map[string]*tunnelDevice
	// dropped is whether there is a device's memory to give back.
	dropped bool
}

func newDevices(t Tuning, log zerolog.Logger) *devices {
	return &devices{tuning: t, log: log, byID: map[string]*tunnelDevice{}}
}

func (d *devices) set(id string, c wireguard.Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.Normal()
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.byID[id]
	if old != nil && old.fits(c) {
		if err := bringUp(id, c); err == nil {
			return old.change(c)
		}
		// The link went just now: it is made anew.
	}
	if err := attachable(id, c); err != nil {
		return err
	}
	if old != nil {
		if c.ListenPort != old.config.ListenPort && c.ListenPort != 0 {
			if err := portFree(c); err != nil {
				return err
			}
		}
		d.drop(old, c.Namespace != old.config.Namespace || c.Name != old.config.Name)
	}
	// A device of memory that was another's would have all of its buffers written, once.
	memory.GiveBackNow(d.dropped, worthGiving)
	d.dropped = false
	h, err := openDevice(id, c, d.tuning, d.log)
	if err != nil {
		d.dropped = true
		return err
	}
	d.byID[id] = h
	d.log.Info().Str("id", id).Str("link", c.Name).Str("namespace", c.Namespace).Uint16("port", c.ListenPort).Msg("device made")
	return nil
}

// drop ends a device. Its link stays when the device is only made anew on it.
func (d *devices) drop(h *tunnelDevice, link bool) {
	if err := h.close(link); err != nil {
		d.log.Warn().Str("id", h.id).Err(err).Msg("cannot remove the device's link")
	}
	delete(d.byID, h.id)
	d.dropped = true
}

func (d *devices) remove(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.byID[id]
	if h == nil {
		return node.Errorf(node.NotExist, "cannot remove WireGuard device %s: there is none", id)
	}
	d.drop(h, true)
	d.log.Info().Str("id", id).Msg("device removed")
	return nil
}

func (d *devices) list(only string) []wireguard.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]wireguard.Status, 0, len(d.byID))
	for id, h := range d.byID {
		if only == "" || id == only {
			out = append(out, h.status())
		}
	}
	slices.SortFunc(out, func(a, b wireguard.Status) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (d *devices) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byID)
}

// sweep lets go of links whose namespace lost its file, until ctx is done: an
// open tun keeps its whole namespace alive. The device stays in the list, as broken.
func (d *devices) sweep(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.sweepOnce()
		}
	}
}

func (d *devices) sweepOnce() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.byID {
		if h.closed() || h.inNamespace() {
			continue
		}
		d.log.Warn().Str("id", h.id).Str("namespace", h.config.Namespace).Msg("the device's namespace is gone")
		d.dropped = true
		if err := h.close(true); err != nil {
			d.log.Warn().Str("id", h.id).Err(err).Msg("cannot remove the device's link")
		}
	}
}

// close lets go of all devices; their links stay.
func (d *devices) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.byID {
		_ = h.close(false)
	}
	clear(d.byID)
}
