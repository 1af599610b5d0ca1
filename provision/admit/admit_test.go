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
	return admit.Workload{ID: id, User: user, Demand: provisioner.Demand{SSD: bytes}, Present: true}
}

func gone(id, user string) admit.Workload { return admit.Workload{ID: id, User: user} }

func TestCheck(t *testing.T) {
	offer := provisioner.Demand{CPU: 4, Memory: 8 * gib, SSD: 100 * gib, HDD: 0}
	for _, tt := range []struct {
		name   string
		policy admit.Policy
		want   admit.Workload
		have   []admit.Workload
		kind   node.Kind
		says   string
	}{
		{name: "room", want: ssd("1-1", "u", gib)},
		{name: "all the room", want: ssd("1-1", "u", 100*gib)},
		{name: "a byte more than all", want: ssd("1-1", "u", 100*gib+1), kind: node.NoSpace, says: "not enough SSD space: need 100.000 GiB, free 100 GiB"},
		{name: "beside others", want: ssd("3-1", "u", 30*gib), have: []admit.Workload{ssd("1-1", "u", 50*gib), ssd("2-1", "v", 20*gib)}},
		{name: "no room beside others", want: ssd("3-1", "u", 31*gib), have: []admit.Workload{ssd("1-1", "u", 50*gib), ssd("2-1", "v", 20*gib)},
			kind: node.NoSpace, says: "need 31 GiB, free 30 GiB"},
		{name: "what has ended takes nothing", want: ssd("3-1", "u", 100*gib), have: []admit.Workload{gone("1-1", "u"), gone("2-1", "v")}},
		{name: "it is there already", want: ssd("1-1", "u", 60*gib), have: []admit.Workload{ssd("1-1", "u", 60*gib)}},
		{name: "less the reserve", policy: admit.Policy{Reserve: provisioner.Demand{SSD: 10 * gib}}, want: ssd("1-1", "u", 91*gib),
			kind: node.NoSpace, says: "free 90 GiB"},
		{name: "more reserve than there is", policy: admit.Policy{Reserve: provisioner.Demand{SSD: 200 * gib}}, want: ssd("1-1", "u", 1),
			kind: node.NoSpace, says: "need 1 B, free 0 B"},
		{name: "a disk that the node hasn't", want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{HDD: gib}}, kind: node.NoSpace, says: "HDD space: need 1 GiB, free 0 B"},
		{name: "too many cores", want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{CPU: 5}}, kind: node.NoSpace, says: "CPU: need 5 cores, free 4 cores"},
		{name: "too much memory", want: admit.Workload{ID: "1-1", Demand: provisioner.Demand{Memory: 8*gib + 512*mib}}, kind: node.NoSpace, says: "memory: need 8.500 GiB, free 8 GiB"},
		{name: "nothing, on a node that is overfull", want: admit.Workload{ID: "2-1"}, have: []admit.Workload{ssd("1-1", "u", 200*gib)}},
		{name: "sizes that would wrap round", want: ssd("3-1", "u", 1), have: []admit.Workload{ssd("1-1", "u", math.MaxUint64), ssd("2-1", "u", math.MaxUint64)},
			kind: node.NoSpace, says: "free 0 B"},
		{name: "the largest size there is", want: ssd("1-1", "u", math.MaxUint64), have: []admit.Workload{ssd("2-1", "u", gib)}, kind: node.NoSpace, says: "free 99 GiB"},

		{name: "a user who is allowed", policy: admit.Policy{AllowUsers: []string{"v", "u"}}, want: ssd("1-1", "u", gib)},
		{name: "a user who isn't", policy: admit.Policy{AllowUsers: []string{"v"}}, want: ssd("1-1", "u", gib), kind: node.Refused, says: "user u isn't allowed"},
		{name: "as many workloads as are allowed", policy: admit.Policy{Workloads: 2}, want: ssd("3-1", "u", gib),
			have: []admit.Workload{ssd("1-1", "u", gib), ssd("2-1", "v", gib), gone("4-1", "u")}},
		{name: "one workload more", policy: admit.Policy{Workloads: 2}, want: ssd("3-1", "u", gib),
			have: []admit.Workload{ssd("1-1", "u", gib), ssd("2-1", "u", gib)}, kind: node.Refused, says: "has 2 workloads on this node, at most 2"},
		{name: "one that is there already isn't one more", policy: admit.Policy{Workloads: 1}, want: ssd("1-1", "u", gib), have: []admit.Workload{ssd("1-1", "u", gib)}},
		{name: "more ended ones than the node remembers", policy: admit.Policy{Records: 2}, want: ssd("3-1", "u", gib),
			have: []admit.Workload{gone("1-1", "u"), gone("2-1", "u")}, kind: node.Refused, says: "remembers 2 reservations"},
		{name: "another user's ended ones", policy: admit.Policy{Records: 2}, want: ssd("3-1", "u", gib), have: []admit.Workload{gone("1-1", "v"), gone("2-1", "v")}},
		{name: "more space than a user may have", policy: admit.Policy{PerUser: provisioner.Demand{SSD: 10 * gib}}, want: ssd("3-1", "u", 6*gib),
			have: []admit.Workload{ssd("1-1", "u", 5*gib), ssd("2-1", "v", 50*gib)}, kind: node.Refused, says: "need 6 GiB, has 5 GiB, at most 10 GiB"},
		{name: "all that a user may have", policy: admit.Policy{PerUser: provisioner.Demand{SSD: 10 * gib}}, want: ssd("3-1", "u", 5*gib),
			have: []admit.Workload{ssd("1-1", "u", 5*gib)}},
	} {
		err := tt.policy.Check(tt.want, tt.have, offer)
		if node.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v (%s), want %q saying %q", tt.name, err, node.KindOf(err), tt.kind, tt.says)
		}
	}
}

// Whatever comes in whatever order: what was admitted never adds up to more
// than the node offers less its reserve, nor one user's to more than the limit.
func TestNeverOverfull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Uint64Range(0, 50), rapid.Uint64())
		offer := provisioner.Demand{SSD: size.Draw(t, "offer"), Memory: size.Draw(t, "memory")}
		p := admit.Policy{Reserve: provisioner.Demand{SSD: size.Draw(t, "reserve")}, PerUser: provisioner.Demand{Memory: rapid.Uint64Range(1, 100).Draw(t, "per user")}}
		var have []admit.Workload
		var total uint64
		users := map[string]uint64{}
		for i := range rapid.IntRange(1, 30).Draw(t, "workloads") {
			w := admit.Workload{ID: fmt.Sprint(i), User: rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"), Present: true,
				Demand: provisioner.Demand{SSD: size.Draw(t, "ssd"), Memory: size.Draw(t, "mem")}}
			if p.Check(w, have, offer) != nil {
				continue
			}
			have = append(have, w)
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

func rec(id string, p store.Phase, size uint64) store.Record {
	h := workload.Hash{}
	copy(h[:], id)
	return store.Record{Hash: h, Phase: p, Attempts: 1, Reservation: &workload.Reservation{
		ID: id, User: "u", Data: json.RawMessage(fmt.Sprint(size)),
	}}
}

// The engine's admission: which records hold space, and what isn't known.
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
		Offer: func(context.Context) (provisioner.Demand, error) { return provisioner.Demand{SSD: 10 * gib}, offerErr },
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting := rec("8-1", store.Retry, 9)
	waiting.Attempts = 0
	refusal := rec("9-1", store.Failed, 9)
	refusal.Refusal = true
	broken := rec("10-1", store.Deployed, 9)
	broken.Reservation.Data = json.RawMessage("x")
	have := []store.Record{
		rec("1-1", store.Intent, 1), rec("2-1", store.Retry, 1), rec("3-1", store.Deployed, 1), rec("4-1", store.Leaving, 1),
		rec("5-1", store.Ended, 9), rec("6-1", store.Failed, 9), waiting, refusal, broken,
	}
	want := rec("7-1", store.Intent, 6).Reservation
	for range 3 {
		if err := a.Admit(context.Background(), want, have); err != nil {
			t.Error(err)
		}
	}
	if asked > 3*2+4 {
		t.Errorf("data was read %d times", asked)
	}
	err = a.Admit(context.Background(), rec("7-1", store.Intent, 7).Reservation, have)
	if node.KindOf(err) != node.NoSpace || !strings.Contains(err.Error(), "need 7 GiB, free 6 GiB") {
		t.Error(err)
	}
	if err := a.Admit(context.Background(), broken.Reservation, nil); node.KindOf(err) != node.Invalid {
		t.Errorf("a demand that can't be told: %v", err)
	}
	for cause, kind := range map[error]node.Kind{
		errors.New("broken"): node.Transient, node.Errorf(node.Unknown, "cannot ask"): node.Unknown,
		node.Errorf(node.NotExist, "cannot find"): node.Transient,
	} {
		offerErr = cause
		if err := a.Admit(context.Background(), want, have); node.KindOf(err) != kind {
			t.Errorf("an offer that isn't known (%v): %v, want %s", cause, err, kind)
		}
	}
	if _, err := admit.New(admit.Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
}
