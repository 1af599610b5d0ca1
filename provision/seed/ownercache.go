package seed

import (
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// ownersMost bounds how many of the remote's answers an ownerCache keeps.
const ownersMost = 4096

// ownerCache tells a reservation's owner. It asks local first, then remote, whose answers it keeps.
type ownerCache struct {
	local  workload.ReservationGetter
	remote workload.ReservationGetter

	mu    sync.Mutex
	known map[string]string
}

// OwnerOf returns the ID of the reservation's user.
func (c *ownerCache) OwnerOf(reservationID string) (string, error) {
	if owner, err := owner(c.local, reservationID); err == nil {
		return owner, nil
	}
	c.mu.Lock()
	known, ok := c.known[reservationID]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	owner, err := owner(c.remote, reservationID)
	if err != nil {
		return "", errors.Wrapf(err, "cannot tell whose reservation %s is", reservationID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= ownersMost {
		clear(c.known)
	}
	c.known[reservationID] = owner
	return owner, nil
}

func owner(getter workload.ReservationGetter, id string) (string, error) {
	if getter == nil {
		return "", errors.New("no source of owners is set")
	}
	r, err := getter.Get(id)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", errors.New("there is none")
	}
	return r.User, nil
}
