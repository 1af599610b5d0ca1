package admit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

const (
	gib = workload.GiB
	mib = workload.MiB
)

func ssd(id, user string, bytes uint64) admit.Workload {
	return admit.Workload{ID: id, User: user, Demand: provisioner.Demand{SSD: bytes}}
}

func tunnel(id, user string, bytes uint64) admit.Workload {
	return admit.Workload{ID: id, User: user, Demand: provisioner.Demand{Tunnels: bytes}}
}

// had is a workload on the node beside the requested one; gone is one that is only remembered.
type had struct {
	admit.Workload
	gone bool
}

func has(id, user string, bytes uint64) had { return had{Workload: ssd(id, user, bytes)} }

func gone(id, user string) had {
	return had{Workload: admit.Workload{ID: id, User: user}, gone: true}
}

// usage sums up all workloads but id, and those of one user.
func usage(id, user string, have []had) (of, all store.Usage) {
	for _, h := range have {
		if h.ID == id {
			continue
		}
		sums := []*store.Usage{&all}
		if h.User == user {
			sums = append(sums, &of)
		}
		for _, u := range sums {
			u.Records++
			if !h.gone {
				u.Workloads++
				u.Demand = u.Demand.Add(h.Demand)
			}
		}
	}
	return of, all
}

func TestCheck(t *testing.T) {
	offer := provisioner.Demand{CPU: 4, Memory: 8 * gib, SSD: 100 * gib, HDD: 0, Tunnels: uint64(admit.TunnelMemory.Total)}
	for _, tt := range []struct {
		name   string
		policy admit.Policy
		want   admit.Workload
		have   []had
		kind   node.Kind
		says   string
	}{
		{name: "room", want: ssd("1-1", "u", gib)},
		{name: "all the room", want: ssd("1-1", "u", 100*gib)},
		{name: "a byte more than all", want: ssd("1-1", "u", 100*gib+1), kind: node.NoSpace, says: "not enough SSD space: need 100.000 GiB, free 100 GiB"},
		{name: "beside others", want: ssd("3-1", "u", 30*gib), have: []had{has("1-1", "u", 50*gib), has("2-1", "v", 20*gib)}},
		{name: "no room beside others", want: ssd("3-1", "u", 31*gib), have: []had{has("1-1", "u", 50*gib), has("2-1", "v", 20*gib)},
			kind: node.NoSpace, says: "need 31 GiB, free 30 GiB"},
		{name: "what has ended takes nothing", want: ssd("3-1", "u", 100*gib), have: []had{gone("1-1", "u"), gone("2-1", "v")}},
		{name: "it is there already", want: ssd("1-1", "u", 60*gib), have: []had{has("1-1", "u", 60*gib)}},
		{name: "less the reserve", policy: admit.Policy{Reserve: provisioner.Demand{SSD: 10 * gib}}, want: ssd("1-1", "u", 91*gib),
			kind: node.NoSpace, says: "free 90 GiB"},
		{name: "more reserve than there is", policy: admit.Policy{Reserve: provisioner.Demand{SSD: 200 * gib}}, want: ssd("1-1", "u", 1),
			kind: node.NoSpace, says: "need 1 B, free 0 B"},
		{name: "a disk that the node hasn't", want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{HDD: gib}}, kind: node.NoSpace, says: "HDD space: need 1 GiB, free 0 B"},
		{name: "too many cores", want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{CPU: 5}}, kind: node.NoSpace, says: "CPU: need 5 cores, free 4 cores"},
		{name: "too much memory", want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{Memory: 8*gib + 512*mib}}, kind: node.NoSpace, says: "memory: need 8.500 GiB, free 8 GiB"},
		{name: "nothing, on a node that is overfull", want: admit.Workload{ID: "2-1"}, have: []had{has("1-1", "u", 200*gib)}},
		{name: "sizes that would wrap round", want: ssd("3-1", "u", 1), have: []had{has("1-1", "u", math.MaxUint64), has("2-1", "u", math.MaxUint64)},
			kind: node.NoSpace, says: "free 0 B"},
		{name: "the largest size there is", want: ssd("1-1", "u", math.MaxUint64), have: []had{has("2-1", "u", gib)}, kind: node.NoSpace, says: "free 99 GiB"},

		{name: "a user who is allowed", policy: admit.Policy{AllowUsers: []string{"v", "u"}}, want: ssd("1-1", "u", gib)},
		{name: "a user who isn't", policy: admit.Policy{AllowUsers: []string{"v"}}, want: ssd("1-1", "u", gib), kind: node.Refused, says: "user u isn't allowed"},
		{name: "as many workloads as are allowed", policy: admit.Policy{Workloads: 2}, want: ssd("3-1", "u", gib),
			have: []had{has("1-1", "u", gib), has("2-1", "v", gib), gone("4-1", "u")}},
		{name: "one workload more", policy: admit.Policy{Workloads: 2}, want: ssd("3-1", "u", gib),
			have: []had{has("1-1", "u", gib), has("2-1", "u", gib)}, kind: node.Refused, says: "has 2 workloads on this node, at most 2"},
		{name: "one that is there already isn't one more", policy: admit.Policy{Workloads: 1}, want: ssd("1-1", "u", gib), have: []had{has("1-1", "u", gib)}},
		{name: "more ended ones than the node remembers", policy: admit.Policy{Records: 2}, want: ssd("3-1", "u", gib),
			have: []had{gone("1-1", "u"), gone("2-1", "u")}, kind: node.Refused, says: "remembers 2 reservations"},
		{name: "more of all users than the node remembers", policy: admit.Policy{Records: 2, AllRecords: 3}, want: ssd("4-1", "u", gib),
			have: []had{gone("1-1", "v"), gone("2-1", "w"), has("3-1", "x", gib)}, kind: node.Refused, says: "remembers 3 reservations, at most 3"},
		{name: "as many of all users as it remembers", policy: admit.Policy{AllRecords: 3}, want: ssd("4-1", "u", gib), have: []had{gone("1-1", "v"), gone("2-1", "w")}},
		{name: "another user's ended ones", policy: admit.Policy{Records: 2}, want: ssd("3-1", "u", gib), have: []had{gone("1-1", "v"), gone("2-1", "v")}},
		{name: "more space than a user may have", policy: admit.Policy{PerUser: provisioner.Demand{SSD: 10 * gib}}, want: ssd("3-1", "u", 6*gib),
			have: []had{has("1-1", "u", 5*gib), has("2-1", "v", 50*gib)}, kind: node.Refused, says: "need 6 GiB, has 5 GiB, at most 10 GiB"},
		{name: "all that a user may have", policy: admit.Policy{PerUser: provisioner.Demand{SSD: 10 * gib}}, want: ssd("3-1", "u", 5*gib),
			have: []had{has("1-1", "u", 5*gib)}},

		{name: "more memory for tunnels than a user may have", policy: admit.Defaults(), want: tunnel("3-1", "u", 512<<10),
			have: []had{{Workload: tunnel("1-1", "u", 32*mib)}, {Workload: tunnel("2-1", "v", mib)}},
			kind: node.Refused, says: "too much memory for tunnels for one user: need 524288 B, has 32 MiB, at most 32 MiB"},
		{name: "more memory for tunnels than the node has", policy: admit.Defaults(), want: tunnel("5-1", "u", 512<<10),
			have: []had{{Workload: tunnel("1-1", "v", 32*mib)}, {Workload: tunnel("2-1", "w", 32*mib)}, {Workload: tunnel("3-1", "x", 32*mib)}, {Workload: tunnel("4-1", "y", 32*mib)}},
			kind: node.NoSpace, says: "not enough memory for tunnels: need 524288 B, free 0 B"},
		{name: "all the memory for tunnels of a user", policy: admit.Defaults(), want: tunnel("3-1", "u", 32*mib),
			have: []had{{Workload: tunnel("2-1", "v", 32*mib)}}},
	} {
		user, all := usage(tt.want.ID, tt.want.User, tt.have)
		err := tt.policy.Check(tt.want, user, all, admit.Offer{Total: offer})
		if node.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v (%s), want %q saying %q", tt.name, err, node.KindOf(err), tt.kind, tt.says)
		}
	}
}

// For any sequence of arrivals, the admitted workloads never add up to more than the node's
// offer less its reserve, nor one user's to more than the limit.
func TestNeverOverfull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Uint64Range(0, 50), rapid.Uint64())
		offer := provisioner.Demand{SSD: size.Draw(t, "offer"), Memory: size.Draw(t, "memory")}
		p := admit.Policy{Reserve: provisioner.Demand{SSD: size.Draw(t, "reserve")}, PerUser: provisioner.Demand{Memory: rapid.Uint64Range(1, 100).Draw(t, "per user")}}
		var have []had
		var total uint64
		users := map[string]uint64{}
		for i := range rapid.IntRange(1, 30).Draw(t, "workloads") {
			w := admit.Workload{ID: fmt.Sprint(i), User: rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"),
				Demand: provisioner.Demand{SSD: size.Draw(t, "ssd"), Memory: size.Draw(t, "mem")}}
			user, all := usage(w.ID, w.User, have)
			if p.Check(w, user, all, admit.Offer{Total: offer}) != nil {
				continue
			}
			have = append(have, had{Workload: w})
			if total+w.Demand.SSD < total {
				t.Fatal("the sum wraps round")
			}
			total += w.Demand.SSD
			users[w.User] += w.Demand.Memory
		}
		free := offer.SSD - min(offer.SSD, p.Reserve.SSD)
		if total > free || users["u"] > p.PerUser.Memory || users["v"] > p.PerUser.Memory {
			t.Fatalf("%d of %d are promised, users have %v of %d", total, free, users, p.PerUser.Memory)
		}
	})
}

func TestReserve(t *testing.T) {
	for machine, want := range map[provisioner.Demand]provisioner.Demand{
		{Memory: 128 * mib}:                  {Memory: 128 * mib},
		{Memory: 1 * gib}:                    {Memory: 256 * mib},
		{Memory: 10 * gib, SSD: 100, CPU: 4}: {Memory: gib, SSD: 2},
		{Memory: 512 * gib, HDD: 5000 * gib}: {Memory: 2 * gib, HDD: 100 * gib},
		{CPU: 64, SSD: 49}:                   {},
	} {
		if got := admit.Reserve(machine); got != want {
			t.Errorf("of %+v a node keeps %+v, want %+v", machine, got, want)
		}
	}
}

// A broken pool doesn't count as a full one; a broken pool of another kind changes nothing.
func TestABrokenPoolIsNotAFullOne(t *testing.T) {
	onSSD, onHDD := admit.BrokenPool{Name: "ssd0", SSD: true, Cause: "x"}, admit.BrokenPool{Name: "hdd0", HDD: true, Cause: "x"}
	full, room := ssd("1-1", "u", 11), ssd("1-1", "u", 10)
	for name, tt := range map[string]struct {
		want   admit.Workload
		policy admit.Policy
		broken []admit.BrokenPool
		kind   node.Kind
	}{
		"room":                          {want: room, broken: []admit.BrokenPool{onSSD}},
		"full, all whole":               {want: full, kind: node.NoSpace},
		"full, its kind broken":         {want: full, broken: []admit.BrokenPool{onHDD, onSSD}, kind: node.Transient},
		"full, another kind broken":     {want: full, broken: []admit.BrokenPool{onHDD}, kind: node.NoSpace},
		"full, of unknown kind":         {want: full, broken: []admit.BrokenPool{{Name: "x", SSD: true, HDD: true}}, kind: node.Transient},
		"no memory, whatever is broken": {want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{Memory: 1, SSD: 1}}, broken: []admit.BrokenPool{onSSD}, kind: node.NoSpace},
		"refused, whatever is broken": {want: full, policy: admit.Policy{AllowUsers: []string{"v"}},
			broken: []admit.BrokenPool{onSSD}, kind: node.Refused},
	} {
		err := tt.policy.Check(tt.want, store.Usage{}, store.Usage{}, admit.Offer{Total: provisioner.Demand{SSD: 10}, Broken: tt.broken})
		if node.KindOf(err) != tt.kind {
			t.Errorf("%s: %v, want %q", name, err, tt.kind)
		}
	}
}

// The reservations that may wait unjudged are limited per user and in all, because keys cost nothing.
func TestMayWait(t *testing.T) {
	for name, tt := range map[string]struct {
		policy    admit.Policy
		user, all int
		kind      node.Kind
	}{
		"no limits":            {admit.Policy{}, 1000, 10000, ""},
		"the last of a user":   {admit.Defaults(), 99, 99, ""},
		"too many of a user":   {admit.Defaults(), 100, 100, node.Refused},
		"the last of all":      {admit.Defaults(), 0, 999, ""},
		"too many of all":      {admit.Defaults(), 0, 1000, node.Refused},
		"a limit of its own":   {admit.Policy{Waiting: 1}, 1, 1, node.Refused},
		"a total of its own":   {admit.Policy{AllWaiting: 2}, 1, 2, node.Refused},
		"workloads don't wait": {admit.Policy{Waiting: 1}, 0, 5, ""},
	} {
		err := tt.policy.MayWait("1-1", store.Usage{Waiting: tt.user, Workloads: 50, Records: 50}, store.Usage{Waiting: tt.all, Workloads: 50})
		if node.KindOf(err) != tt.kind {
			t.Errorf("%s: %v, want %q", name, err, tt.kind)
		}
	}
}

func reservation(id, data string) *workload.Reservation {
	return &workload.Reservation{ID: id, User: "u", Data: json.RawMessage(data)}
}

// The engine's admission: its queries, and how it treats unknown answers.
func TestAdmission(t *testing.T) {
	asked := 0
	var offerErr error
	a, err := admit.New(admit.Config{
		Policy: admit.Defaults(),
		Demand: func(r *workload.Reservation) (provisioner.Demand, error) {
			asked++
			var size uint64
			if err := json.Unmarshal(r.Data, &size); err != nil {
				return provisioner.Demand{}, node.Errorf(node.Invalid, "cannot read data")
			}
			return provisioner.Demand{SSD: size * gib}, nil
		},
		Offer: func(context.Context) (admit.Offer, error) {
			return admit.Offer{Total: provisioner.Demand{SSD: 10 * gib}}, offerErr
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	offer, err := a.Offer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := store.Usage{Records: 7, Workloads: 4, Demand: provisioner.Demand{SSD: 4 * gib}}
	if err := a.Admit(reservation("7-1", "6"), have, have, offer); err != nil || asked != 1 {
		t.Errorf("%v; data was read %d times, want once", err, asked)
	}
	err = a.Admit(reservation("7-1", "7"), have, have, offer)
	if node.KindOf(err) != node.NoSpace || !strings.Contains(err.Error(), "need 7 GiB, free 6 GiB") {
		t.Error(err)
	}
	if err := a.Admit(reservation("10-1", "x"), store.Usage{}, store.Usage{}, offer); node.KindOf(err) != node.Invalid {
		t.Errorf("a demand that can't be told: %v", err)
	}
	offer.Held = map[string]provisioner.Demand{"7-1": {SSD: 6 * gib}}
	if err := a.Admit(reservation("7-1", "6"), have, store.Usage{Demand: provisioner.Demand{SSD: 10 * gib}}, offer); err != nil {
		t.Errorf("what comes back to what is held for it: %v", err)
	}
	if err := a.Wait(reservation("7-1", "7"), store.Usage{Waiting: 100}, store.Usage{Waiting: 100}); node.KindOf(err) != node.Refused {
		t.Errorf("one too many waits: %v", err)
	}
	for cause, kind := range map[error]node.Kind{
		errors.New("broken"): node.Transient, node.Errorf(node.Unknown, "cannot ask"): node.Unknown,
		node.Errorf(node.NotExist, "cannot find"): node.Transient,
	} {
		offerErr = cause
		if _, err := a.Offer(t.Context()); node.KindOf(err) != kind {
			t.Errorf("an offer that isn't known (%v): %v, want %s", cause, err, kind)
		}
	}
	if _, err := admit.New(admit.Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
}

// TestTunnelMemoryIsCountedWhenItBites: /metrics counts networks refused for want of tunnel
// memory, and nothing else.
func TestTunnelMemoryIsCountedWhenItBites(t *testing.T) {
	p, offer := admit.Defaults(), admit.Offer{Total: provisioner.Demand{Tunnels: uint64(admit.TunnelMemory.Total)}}
	before := limit.Times()[admit.TunnelMemory.Name]
	for _, w := range []admit.Workload{tunnel("1-1", "u", 33*mib), ssd("2-1", "u", 1), tunnel("3-1", "u", mib)} {
		_ = p.Check(w, store.Usage{}, store.Usage{}, offer)
	}
	if n := limit.Times()[admit.TunnelMemory.Name] - before; n != 1 {
		t.Errorf("it was counted %d times", n)
	}
}
