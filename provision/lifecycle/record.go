package lifecycle

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
)

// Record is the node's whole memory of one reservation. There is one a reservation
// ID, and it is written whole. A fact that must outlive a crash is a member of it,
// never inferred from another.
type Record struct {
	// Reservation as it came, Data byte for byte. Its Deletion and Renewal are
	// the newest verified and accepted ones. Secrets in it stay sealed. A
	// tombstone's has no Data and no signatures.
	Reservation *workload.Reservation
	// Hash is the signed hash; no two records share one, except Dismissed ones.
	Hash workload.Hash
	// Name is the key of the name that it was reserved under, zero for none: a
	// newer reservation of the same name replaces an older one.
	Name  NameKey
	Phase Phase

	// Result is the newest answer, unsigned (it is signed when it is sent);
	// nil while there is none. Delivered is whether the explorer has it.
	Result    *workload.Result
	Delivered bool
	// Resends counts how often the explorer asked for Result again since the node started. The
	// store counts and doesn't write it: a receipt from before a request doesn't answer it.
	Resends int

	// End is why the workload is leaving or has ended: deleted, expired, evicted, or
	// error for one that failed for good. Empty otherwise.
	End workload.State

	// Admitted is whether its room was promised: from then on admission counts it, and
	// it holds its name.
	Admitted bool
	// Begun is whether anything of it may ever have been made on the node.
	Begun bool
	// Uncertain is whether an attempt ended in an unknown state.
	Uncertain bool
	// Removing is whether anything of it may have been removed already.
	Removing bool
	// Older is whether it was refused only because the node's store is younger.
	Older bool
	// Unlabelled is whether it was deployed by a croft that put no hash into the
	// workload's label.
	Unlabelled bool
	// Bound are the hashes of the reservations that it refers to, by ID, as they were
	// when this workload was first made with them.
	Bound map[string]workload.Hash
	// Pending is a renewal of its user that no trusted time has judged yet. While
	// there is one, nothing of the workload is removed because its time is over.
	Pending *workload.Renewal

	// Attempts counts the attempts in a row that failed or are under way, Cause is the
	// error of the last one, NextAttempt when the next one is due. They are for people
	// and for backoff: no other decision depends on them.
	Attempts    int
	Cause       string
	NextAttempt time.Time

	// Accepted is when the node accepted the reservation, by its clock; Deployed when
	// its workload was first on the node, zero if it never was.
	Accepted time.Time
	Deployed time.Time
	// Since proves, without any clock, how much time has passed since it was accepted;
	// Holding the same since its grace began.
	Since   Since
	Holding Since
}

// ID is the record's reservation ID.
func (r Record) ID() string { return r.Reservation.ID }

// Tombstone reports whether nothing of it is on the node and nothing will be.
func (r Record) Tombstone() bool { return r.Phase.Tombstone() }

// Present reports whether its workload holds its promised room.
func (r Record) Present() bool { return r.Admitted && !r.Phase.Tombstone() }

// Takes reports whether it uses its promised room: a replaced one has given it to
// the newer one of its name, and doesn't get it back.
func (r Record) Takes() bool { return r.Present() && r.Phase != Replaced }

// HoldsName reports whether it was admitted under its name: an older one of the
// name is refused, also when this one has ended.
func (r Record) HoldsName() bool {
	return r.Name != NameKey{} && r.Admitted && r.Phase != Failed
}

// Clone returns a copy that shares nothing that either side changes in place.
func (r Record) Clone() Record {
	if r.Reservation != nil {
		c := *r.Reservation
		r.Reservation = &c
	}
	if r.Result != nil {
		c := *r.Result
		r.Result = &c
	}
	r.Bound = maps.Clone(r.Bound)
	return r
}

// NameKey identifies a name inside the node: workload.NetworkKey and
// workload.ContainerKey. A newer reservation may take over the name of a network
// or a container.
type NameKey [32]byte

// NameOf returns the key of the name that r is reserved under; false when its
// type has none, or the name can't be read.
func NameOf(r *workload.Reservation) (NameKey, bool) {
	if r == nil || r.Type != workload.TypeNetwork && r.Type != workload.TypeContainer {
		return NameKey{}, false
	}
	var data struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil || data.Name == "" {
		return NameKey{}, false
	}
	if r.Type == workload.TypeContainer {
		return workload.ContainerKey(r.User, data.Name), true
	}
	return workload.NetworkKey(r.User, data.Name), true
}

// Since is a moment from which elapsed time can be proven: by the node's uptime,
// which never exceeds the time that has really passed.
type Since struct {
	// Floor is a time that had certainly come at that moment.
	Floor time.Time
	// Uptime is the node's at that moment. It counts only if Known.
	Uptime time.Duration
	Known  bool
	// Level is how far the clock could be trusted then.
	Level clock.Level
}

// sinceNow is the present moment, at which floor has certainly come.
func sinceNow(now clock.Reading, floor time.Time) Since {
	if now.Level == clock.Remove && now.Now.After(floor) {
		floor = now.Now
	}
	return Since{Floor: floor, Uptime: now.Uptime, Known: true, Level: now.Level}
}

// From is the present moment, from which a span such as a grace period counts.
func From(now clock.Reading) Since { return sinceNow(now, time.Time{}) }

// Proven is the one gate before every irreversible step whose time has come:
// removing data, burying a tombstone, forgetting a name. It holds when a time at
// level Remove has reached end, or when the node has been up for all of the time
// that was left until then.
func Proven(end time.Time, since Since, now clock.Reading) bool {
	if now.Level == clock.Remove && !now.Now.Before(end) {
		return true
	}
	return since.Known && now.Uptime-since.Uptime >= end.Sub(since.Floor)
}

// Lasted is the gate for a span of time, such as a grace period.
func Lasted(span time.Duration, since Since, now clock.Reading) bool {
	if !since.Known {
		return false
	}
	if now.Uptime-since.Uptime >= span {
		return true
	}
	return now.Level == clock.Remove && since.Level == clock.Remove && now.Now.Sub(since.Floor) >= span
}

// final reports whether a tombstone is over for good. One that was only refused may
// be accepted when it comes again.
func (r Record) final() bool {
	return r.Phase != Refused || r.Result != nil && r.Result.State == workload.StateDeleted
}

// tombstone is r without the members that nothing needs once its workload is gone.
func (r Record) tombstone() Record {
	full := r.Reservation
	r.Reservation = &workload.Reservation{
		ID: full.ID, NodeID: full.NodeID, User: full.User, Type: full.Type, Version: full.Version,
		Created: full.Created, Duration: full.Duration,
	}
	if full.Renewal != nil {
		r.Reservation.Renewal = &workload.Renewal{Expires: full.Renewal.Expires}
	}
	r.Bound, r.Pending = nil, nil
	r.Attempts, r.NextAttempt = 0, time.Time{}
	r.Begun, r.Uncertain, r.Removing, r.Unlabelled = false, false, false, false
	return r
}
