package admit

import (
	"slices"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Policy is who may have how much here.
type Policy struct {
	// AllowUsers are the user IDs that are allowed; empty allows everyone.
	AllowUsers []string
	// Reserve is kept for the node itself.
	Reserve provisioner.Demand
	// PerUser bounds what one user's workloads take together; 0 is no limit.
	PerUser provisioner.Demand
	// Workloads bounds how many a user has on the node; 0 is no limit.
	Workloads int
	// Records bounds how many reservations of a user the node remembers, ended
	// ones until their signed end included; 0 is no limit.
	Records int
}

// Defaults are limits that nobody meets by accident: 1,000 workloads and
// 10,000 remembered reservations a user, no limit on what they take together
// but the node's size. Nothing is reserved: see Reserve.
func Defaults() Policy { return Policy{Workloads: 1000, Records: 10000} }

// Reserve is what a node keeps for itself of what the machine has: a tenth of
// the memory, at least 256 MiB and at most 2 GiB, and a fiftieth of each kind of disk.
func Reserve(machine provisioner.Demand) provisioner.Demand {
	return provisioner.Demand{
		Memory: min(machine.Memory, max(256*workload.MiB, min(2*workload.GiB, machine.Memory/10))),
		SSD:    machine.SSD / 50,
		HDD:    machine.HDD / 50,
	}
}

// Workload is what one workload takes.
type Workload struct {
	ID     string
	User   string
	Demand provisioner.Demand
	// Present is false for one that is only remembered: it takes nothing.
	Present bool
}

// Check says whether want may come beside have on a node that offers offer in
// all: NoSpace with need and free, Refused for the user's limits. Whatever of
// want is in have already isn't counted.
func (p Policy) Check(want Workload, have []Workload, offer provisioner.Demand) error {
	if len(p.AllowUsers) > 0 && !slices.Contains(p.AllowUsers, want.User) {
		return node.Errorf(node.Refused, "cannot admit %s: user %s isn't allowed on this node", want.ID, want.User)
	}
	var all, users provisioner.Demand
	workloads, records := 0, 0
	for _, w := range have {
		if w.ID == want.ID {
			continue
		}
		if w.Present {
			all = add(all, w.Demand)
		}
		if w.User != want.User {
			continue
		}
		records++
		if w.Present {
			workloads++
			users = add(users, w.Demand)
		}
	}
	if err := p.count(want, workloads, records); err != nil {
		return err
	}
	for _, u := range units() {
		need := u.of(want.Demand)
		if limit, has := u.of(p.PerUser), u.of(users); need > 0 && limit > 0 && need > less(limit, has) {
			return node.Errorf(node.Refused, "cannot admit %s: too much %s for one user: need %s, has %s, at most %s on this node",
				want.ID, u.name, u.text(need), u.text(has), u.text(limit))
		}
		free := less(less(u.of(offer), u.of(p.Reserve)), u.of(all))
		if need > free {
			return node.Errorf(node.NoSpace, "cannot admit %s: not enough %s: need %s, free %s", want.ID, u.name, u.text(need), u.text(free))
		}
	}
	return nil
}

func (p Policy) count(want Workload, workloads, records int) error {
	if p.Workloads > 0 && workloads >= p.Workloads {
		return node.Errorf(node.Refused, "cannot admit %s: its user has %d workloads on this node, at most %d are allowed",
			want.ID, workloads, p.Workloads)
	}
	if p.Records > 0 && records >= p.Records {
		return node.Errorf(node.Refused, "cannot admit %s: the node remembers %d reservations of its user until their signed end, at most %d are allowed; shorter durations end earlier",
			want.ID, records, p.Records)
	}
	return nil
}
