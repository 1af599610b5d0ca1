package admit

import (
	"slices"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// Policy limits who may have how much on this node.
type Policy struct {
	// AllowUsers are the user IDs that are allowed; empty allows everyone.
	AllowUsers []string
	// Without names the features that each new container must give up; see
	// workload.Container.Without.
	Without []string
	// Reserve is kept for the node itself.
	Reserve provisioner.Demand
	// PerUser bounds the total demand of one user's workloads; 0 is no limit.
	PerUser provisioner.Demand
	// Workloads bounds how many workloads a user has on the node; 0 is no limit.
	Workloads int
	// Records bounds how many reservations of a user the node remembers, including ended
	// ones until their signed end, AllRecords those of all users, because keys cost
	// nothing; 0 is no limit. No record is given up for a new one: records keep ended
	// reservations from coming back.
	Records    int
	AllRecords int
	// Waiting bounds how many reservations of a user wait because they can't be judged yet,
	// AllWaiting those of all users, because keys cost nothing; 0 is no limit.
	Waiting    int
	AllWaiting int
}

// Defaults are limits that nobody meets by accident: per user 1,000 workloads, 10,000 remembered and 100
// waiting reservations; in all 50,000 remembered and 1,000 waiting ones; no limit on a user's demand but
// TunnelMemory and the node's size. Nothing is reserved: see Reserve.
func Defaults() Policy {
	return Policy{
		Workloads: 1000, Records: 10000, AllRecords: 50000, Waiting: 100, AllWaiting: 1000,
		PerUser: provisioner.Demand{Tunnels: uint64(TunnelMemory.Each)},
	}
}

// Reserve is the part of the machine that a node keeps for itself: a tenth of the memory,
// at least 256 MiB and at most 2 GiB, and a fiftieth of each kind of disk.
func Reserve(machine provisioner.Demand) provisioner.Demand {
	return provisioner.Demand{
		Memory: min(machine.Memory, max(256*workload.MiB, min(2*workload.GiB, machine.Memory/10))),
		SSD:    machine.SSD / 50,
		HDD:    machine.HDD / 50,
	}
}

// Workload is a workload to be admitted.
type Workload struct {
	ID     string
	User   string
	Demand provisioner.Demand
	// Whole is whether its disk space must be in one piece.
	Whole bool
}

// Check decides whether want fits beside its user's and all users' usage on a node with
// that offer: NoSpace with need and free, Transient where a broken pool may have the room,
// Refused for the limits. Neither user nor all counts want.
func (p Policy) Check(want Workload, user, all store.Usage, offer Offer) error {
	if len(p.AllowUsers) > 0 && !slices.Contains(p.AllowUsers, want.User) {
		return node.Errorf(node.Refused, "cannot admit %s: user %s isn't allowed on this node", want.ID, want.User)
	}
	if err := p.count(want, user, all); err != nil {
		return err
	}
	for _, u := range units() {
		need := u.of(want.Demand)
		if limit, has := u.of(p.PerUser), u.of(user.Demand); need > 0 && limit > 0 && need > less(limit, has) {
			u.reached()
			return node.Errorf(node.Refused, "cannot admit %s: too much %s for one user: need %s, has %s, at most %s on this node",
				want.ID, u.name, u.text(need), u.text(has), u.text(limit))
		}
		free := less(less(u.of(offer.Total), u.of(p.Reserve)), u.of(all.Demand))
		if need <= free {
			if !want.Whole || offer.Whole == nil || need <= u.whole(*offer.Whole) {
				continue
			}
			full := node.Errorf(node.NoSpace, "cannot admit %s: not enough %s on one pool: need %s, free %s", want.ID, u.name, u.text(need), u.text(u.whole(*offer.Whole)))
			return offer.patient(u, full)
		}
		u.reached()
		full := node.Errorf(node.NoSpace, "cannot admit %s: not enough %s: need %s, free %s", want.ID, u.name, u.text(need), u.text(free))
		return offer.patient(u, full)
	}
	return nil
}

// contained returns Refused unless a container gives up every feature that it must.
func (p Policy) contained(r *workload.Reservation) error {
	if len(p.Without) == 0 || r.Type != workload.TypeContainer {
		return nil
	}
	data, err := workload.DataOf[workload.Container](r)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	less := data.Without()
	for _, name := range p.Without {
		if !slices.Contains(less, name) {
			return node.Errorf(node.Refused, "cannot admit %s: data.%s is false, must be true on this node: its operator demands it", r.ID, name)
		}
	}
	return nil
}

func (p Policy) count(want Workload, user, all store.Usage) error {
	if p.Workloads > 0 && user.Workloads >= p.Workloads {
		return node.Errorf(node.Refused, "cannot admit %s: its user has %d workloads on this node, at most %d are allowed",
			want.ID, user.Workloads, p.Workloads)
	}
	if p.Records > 0 && user.Records >= p.Records {
		return node.Errorf(node.Refused, "cannot admit %s: the node remembers %d reservations of its user until their signed end, at most %d are allowed; shorter durations end earlier",
			want.ID, user.Records, p.Records)
	}
	if p.AllRecords > 0 && all.Records >= p.AllRecords {
		return node.Errorf(node.Refused, "cannot admit %s: the node remembers %d reservations, at most %d are allowed; it takes in new ones when some of them are forgotten",
			want.ID, all.Records, p.AllRecords)
	}
	return nil
}

// MayWait decides whether a reservation that can't be judged yet may wait beside those of
// its user and of all users: Refused when too many wait.
func (p Policy) MayWait(id string, user, all store.Usage) error {
	if p.Waiting > 0 && user.Waiting >= p.Waiting {
		return node.Errorf(node.Refused, "cannot keep %s until it can be judged: %d of its user's wait, at most %d are allowed", id, user.Waiting, p.Waiting)
	}
	if p.AllWaiting > 0 && all.Waiting >= p.AllWaiting {
		return node.Errorf(node.Refused, "cannot keep %s until it can be judged: %d wait on this node, at most %d are allowed", id, all.Waiting, p.AllWaiting)
	}
	return nil
}
