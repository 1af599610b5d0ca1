package store

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// deployedCount counts the records in phase Deployed by type; those of one name count once.
type deployedCount struct {
	types map[workload.Type]int
	names map[NetworkKey]int
}

func newDeployedCount() deployedCount {
	return deployedCount{types: map[workload.Type]int{}, names: map[NetworkKey]int{}}
}

func (c deployedCount) add(r Record) {
	if r.Name == (NetworkKey{}) {
		c.types[r.Reservation.Type]++
		return
	}
	if c.names[r.Name]++; c.names[r.Name] == 1 {
		c.types[r.Reservation.Type]++
	}
}

func (c deployedCount) drop(r Record) {
	if r.Name == (NetworkKey{}) {
		c.types[r.Reservation.Type]--
		return
	}
	if c.names[r.Name]--; c.names[r.Name] == 0 {
		delete(c.names, r.Name)
		c.types[r.Reservation.Type]--
	}
}

// Counters counts the deployed, unexpired workloads by type. An updated
// network counts once. While the clock can't be trusted, nothing is expired.
func (s *FSStore) Counters() workload.ProvisionCounters {
	now, trusted := s.cfg.Clock.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.counters(now, trusted)
}

// counters counts the deployed workloads less the expired ones, which the engine ends soon.
func (x *index) counters(now time.Time, trusted bool) workload.ProvisionCounters {
	over := map[workload.Type]int{}
	if trusted {
		names := map[NetworkKey]int{}
		for _, e := range x.expired(now) {
			key := e.record.Name
			if key != (NetworkKey{}) {
				if names[key]++; names[key] < x.deployed.names[key] {
					continue
				}
			}
			over[e.record.Reservation.Type]++
		}
	}
	left := func(t workload.Type) int64 { return int64(x.deployed.types[t] - over[t]) }
	return workload.ProvisionCounters{
		Container: left(workload.TypeContainer), Volume: left(workload.TypeVolume), Network: left(workload.TypeNetwork),
		ZDB: left(workload.TypeZDB), VM: left(workload.TypeKubernetes), Debug: left(workload.TypeDebug),
	}
}
