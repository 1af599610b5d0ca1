package storage

import (
	"time"

	"github.com/croft-edge/croft/modules/storage/volume"
)

// limitsEvery is the pause between two looks at the quotas: the kernel tells nobody when one changes. The node promises
// that what differs is as it was within 30 seconds.
const limitsEvery = 15 * time.Second

// limitAll limits the things of all pools that work as their labels say. Other calls wait only where something differs.
func (m *Module) limitAll() {
	for _, p := range m.pools {
		if p.limited() {
			continue
		}
		done, err := m.begin()
		if err != nil {
			return
		}
		p.limit(m.cfg.Quota)
		done()
	}
}

// limited reports whether nothing on the pool needs another limit; so it does of a pool that can't be read, which Status says.
func (p *pool) limited() bool {
	f, err := p.open()
	if err != nil {
		return true
	}
	defer f.Close()
	limited, err := volume.Limited(f, p.all())
	return limited && err == nil
}

// limit brings the quotas of the pool to what its labels say. The caller holds the module's mu.
func (p *pool) limit(want volume.Quota) {
	f, err := p.open()
	if err != nil {
		return
	}
	defer f.Close()
	names, err := volume.Limit(f, p.all(), want)
	if err != nil {
		if cause := err.Error(); p.unlimited != cause {
			p.unlimited = cause
			p.log.Error().Str("step", "drift").Err(err).Str("pool", p.name).Msg("cannot set the limits of a pool: tried again")
		}
		return
	}
	if p.unlimited = ""; len(names) > 0 {
		p.log.Warn().Str("step", "drift").Str("pool", p.name).Strs("names", names).Msg("limits differed from the promised sizes: set again")
	}
}
