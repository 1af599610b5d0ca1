package plan_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/pkg/workload"
)

const day = 24 * time.Hour

func moment() time.Time { return time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC) }

// volume is a wanted volume; with changes it.
func volume(with ...func(*plan.Wanted)) plan.Wanted {
	w := plan.Wanted{Name: "data", Type: workload.TypeVolume, Node: "n1", Digest: "d1", Duration: 30 * day}
	for _, f := range with {
		f(&w)
	}
	return w
}

// there is the reservation that volume leads to, one day old.
func there(with ...func(*plan.Known)) plan.Known {
	k := plan.Known{
		Name: "data", Type: workload.TypeVolume, Node: "n1", ID: "7-1", Digest: "d1", Duration: 30 * day,
		Created: moment().Add(-day), Expires: moment().Add(29 * day), Phase: plan.Deployed,
	}
	for _, f := range with {
		f(&k)
	}
	return k
}

func phase(p plan.Phase, why string) func(*plan.Known) {
	return func(k *plan.Known) { k.Phase, k.Why = p, why }
}

func network(name string) func(*plan.Wanted) {
	return func(w *plan.Wanted) { w.Type, w.Network = workload.TypeNetwork, name }
}

func networkThere(name string) func(*plan.Known) {
	return func(k *plan.Known) { k.Type, k.Network = workload.TypeNetwork, name }
}

// TestOneWorkload reads: when the file asks for wanted, and known is there,
// then this happens, for this reason.
func TestOneWorkload(t *testing.T) {
	changed := func(w *plan.Wanted) { w.Digest = "d2" }
	longer := func(w *plan.Wanted) { w.Duration = 60 * day }
	shorter := func(w *plan.Wanted) { w.Duration = 10 * day }
	overdue := func(k *plan.Known) { k.Expires = moment() }
	web := func(w *plan.Wanted) { w.Type = workload.TypeContainer }
	webThere := func(k *plan.Known) { k.Type, k.Named = workload.TypeContainer, true }
	old := func(k *plan.Known) { k.Named = false }
	runsOn := func(k *plan.Known) { k.Older = "6-1" }
	for _, c := range []struct {
		when   string
		wanted []plan.Wanted
		known  []plan.Known
		then   plan.Action
		reason string
		loses  bool
	}{
		{"a container has changed", []plan.Wanted{volume(web, changed)}, []plan.Known{there(webThere)}, plan.Update, "changed in the file", false},
		{"a container of an older croft has", []plan.Wanted{volume(web, changed)}, []plan.Known{there(webThere, old)}, plan.Replace, "changed in the file", false},
		{"a container is on another node now", []plan.Wanted{volume(web, func(w *plan.Wanted) { w.Node = "n2" })}, []plan.Known{there(webThere)}, plan.Replace, "was on node n1", false},
		{"a container has failed", []plan.Wanted{volume(web)}, []plan.Known{there(webThere, phase(plan.Failed, "x"))}, plan.Replace, "has failed", false},
		{"a container has failed, and the one before it runs", []plan.Wanted{volume(web)}, []plan.Known{there(webThere, runsOn, phase(plan.Failed, "x"))}, plan.Update, "has failed: x", false},
		{"a container isn't in the file any more", nil, []plan.Known{there(webThere)}, plan.Delete, "isn't in the file", false},
		{"nothing is there", []plan.Wanted{volume()}, nil, plan.Create, "", false},
		{"it is deployed", []plan.Wanted{volume()}, []plan.Known{there()}, plan.None, "", false},
		{"the node hasn't answered", []plan.Wanted{volume()}, []plan.Known{there(phase(plan.Pending, ""))}, plan.None, "", false},
		{"the push's answer was lost", []plan.Wanted{volume()}, []plan.Known{there(phase(plan.Unpushed, ""))}, plan.Resume, "signed before", false},
		{"it has failed", []plan.Wanted{volume()}, []plan.Known{there(phase(plan.Failed, "no space"))}, plan.Replace, "7-1 has failed: no space", false},
		{"it has ended", []plan.Wanted{volume()}, []plan.Known{there(phase(plan.Ended, "evicted"))}, plan.Create, "7-1 has ended: evicted", false},
		{"its time is over, whatever the node says", []plan.Wanted{volume()}, []plan.Known{there(overdue)}, plan.Create, "7-1 has expired", false},
		{"it was never pushed, and its time is over", []plan.Wanted{volume()}, []plan.Known{there(overdue, phase(plan.Unpushed, ""))}, plan.Create, "before it was pushed", false},
		{"the explorer has lost it", []plan.Wanted{volume()}, []plan.Known{there(phase(plan.Lost, ""))}, plan.Blocked, "doesn't know 7-1", false},
		{"the file has changed", []plan.Wanted{volume(changed)}, []plan.Known{there()}, plan.Replace, "changed in the file", true},
		{"the file has changed before the node answered", []plan.Wanted{volume(changed)}, []plan.Known{there(phase(plan.Pending, ""))}, plan.Replace, "changed in the file", true},
		{"the file has changed and it has failed", []plan.Wanted{volume(changed)}, []plan.Known{there(phase(plan.Failed, "x"))}, plan.Replace, "has failed", false},
		{"the file has changed and it has ended", []plan.Wanted{volume(changed)}, []plan.Known{there(phase(plan.Ended, ""))}, plan.Create, "has ended", false},
		{"the file names another node", []plan.Wanted{volume(func(w *plan.Wanted) { w.Node = "n2" })}, []plan.Known{there()}, plan.Replace, "was on node n1", true},
		{"the file says another type", []plan.Wanted{volume(func(w *plan.Wanted) { w.Type = workload.TypeZDB })}, []plan.Known{there()}, plan.Replace, "was a volume", true},
		{"the duration is longer now", []plan.Wanted{volume(longer)}, []plan.Known{there()}, plan.Renew, "60d now, was 30d", false},
		{"the duration is shorter now", []plan.Wanted{volume(shorter)}, []plan.Known{there()}, plan.None, "", false},
		{"the duration is longer now, and it was renewed beyond that", []plan.Wanted{volume(longer)},
			[]plan.Known{there(func(k *plan.Known) { k.Expires = moment().Add(90 * day) })}, plan.None, "", false},
		{"it isn't in the file any more", nil, []plan.Known{there()}, plan.Delete, "isn't in the file", true},
		{"it isn't in the file any more, and has failed", nil, []plan.Known{there(phase(plan.Failed, "x"))}, plan.Delete, "isn't in the file", false},
		{"it isn't in the file any more, and has ended", nil, []plan.Known{there(phase(plan.Ended, "deleted"))}, plan.Delete, "has ended: deleted", false},
		{"a network has changed", []plan.Wanted{volume(network("net"), changed)}, []plan.Known{there(networkThere("net"))}, plan.Update, "changed in the file", false},
		{"a network has another name now", []plan.Wanted{volume(network("net2"), changed)}, []plan.Known{there(networkThere("net"))}, plan.Replace, "changed in the file", false},
		{"a network is on another node now", []plan.Wanted{volume(network("net"), func(w *plan.Wanted) { w.Node = "n2" })}, []plan.Known{there(networkThere("net"))}, plan.Replace, "was on node n1", false},
		{"a network has failed", []plan.Wanted{volume(network("net"))}, []plan.Known{there(networkThere("net"), phase(plan.Failed, "x"))}, plan.Replace, "has failed", false},
	} {
		t.Run(c.when, func(t *testing.T) {
			p := plan.Make(plan.Input{Now: moment(), Wanted: c.wanted, Known: c.known})
			if len(p.Changes) != 1 {
				t.Fatalf("%d changes, want 1: %+v", len(p.Changes), p.Changes)
			}
			got := p.Changes[0]
			if got.Action != c.then || got.LosesData != c.loses || !strings.Contains(got.Reason, c.reason) || (c.reason == "" && got.Reason != "") {
				t.Errorf("got %s (%q, loses data: %v), want %s (%q, %v)", got.Action, got.Reason, got.LosesData, c.then, c.reason, c.loses)
			}
			if p.Changed() != (c.then != plan.None) {
				t.Errorf("Changed is %v", p.Changed())
			}
		})
	}
}

func TestRenewalEndsWhereTheFileSays(t *testing.T) {
	p := plan.Make(plan.Input{Now: moment(), Wanted: []plan.Wanted{volume(func(w *plan.Wanted) { w.Duration = 60 * day })}, Known: []plan.Known{there()}})
	if want := moment().Add(59 * day); !p.Changes[0].Expires.Equal(want) {
		t.Errorf("renewed until %v, want %v", p.Changes[0].Expires, want)
	}
}

func TestRecreateLostReservations(t *testing.T) {
	in := plan.Input{Now: moment(), Wanted: []plan.Wanted{volume()}, Known: []plan.Known{there(phase(plan.Lost, ""))}, Recreate: true}
	if c := plan.Make(in).Changes[0]; c.Action != plan.Create {
		t.Errorf("got %+v, want a creation", c)
	}
}

func TestHints(t *testing.T) {
	soon := there(func(k *plan.Known) { k.Expires = moment().Add(2 * time.Hour) })
	if c := plan.Make(plan.Input{Now: moment(), Wanted: []plan.Wanted{volume()}, Known: []plan.Known{soon}}).Changes[0]; c.Action != plan.None || !strings.Contains(c.Hint, "expires in 2h") {
		t.Errorf("no hint that it expires soon: %+v", c)
	}
	if c := plan.Make(plan.Input{Now: moment(), Wanted: []plan.Wanted{volume()}, Known: []plan.Known{there()}}).Changes[0]; c.Hint != "" {
		t.Errorf("a hint about what lives for 29 of 30 days: %q", c.Hint)
	}
	shorter := volume(func(w *plan.Wanted) { w.Duration = 20 * day })
	if c := plan.Make(plan.Input{Now: moment(), Wanted: []plan.Wanted{shorter}, Known: []plan.Known{there()}}).Changes[0]; !strings.Contains(c.Hint, "shorter duration") {
		t.Errorf("no hint about the shorter duration: %+v", c)
	}
}

// container is a member of a network with a volume.
func container() plan.Wanted {
	return plan.Wanted{Name: "web", Type: workload.TypeContainer, Node: "n1", Digest: "c1", Duration: 30 * day, Uses: []string{"data", "net"}}
}

func containerThere() plan.Known {
	return there(func(k *plan.Known) {
		k.Name, k.Type, k.ID, k.Digest, k.Uses = "web", workload.TypeContainer, "9-1", "c1", map[string]string{"data": "7-1", "net": "8-1"}
	})
}

func net() plan.Wanted {
	return plan.Wanted{Name: "net", Type: workload.TypeNetwork, Network: "net", Node: "n1", Digest: "n1", Duration: 30 * day}
}

func netThere() plan.Known {
	return there(func(k *plan.Known) {
		k.Name, k.Type, k.Network, k.ID, k.Digest = "net", workload.TypeNetwork, "net", "8-1", "n1"
	})
}

func hashed(hash string) func(*plan.Known) { return func(k *plan.Known) { k.Hash = hash } }

func hashedNet(hash string) plan.Known {
	k := netThere()
	k.Hash = hash
	return k
}

// containerNaming is the container that was signed with these hashes.
func containerNaming(data, net string) plan.Known {
	k := containerThere()
	k.Hash, k.Hashes = "c", map[string]string{"data": data, "net": net}
	return k
}

// TestDependants: what refers to something that is made anew is made anew, and only that.
func TestDependants(t *testing.T) {
	for _, c := range []struct {
		when   string
		wanted []plan.Wanted
		known  []plan.Known
		then   map[string]plan.Action
	}{
		{
			"all is as it should be",
			[]plan.Wanted{volume(), net(), container()}, []plan.Known{there(), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.None, "net": plan.None, "web": plan.None},
		},
		{
			"the volume has changed",
			[]plan.Wanted{volume(func(w *plan.Wanted) { w.Digest = "d2" }), net(), container()}, []plan.Known{there(), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.Replace, "net": plan.None, "web": plan.Replace},
		},
		{
			"the volume has expired",
			[]plan.Wanted{volume(), net(), container()}, []plan.Known{there(phase(plan.Ended, "expired")), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.Create, "net": plan.None, "web": plan.Replace},
		},
		{
			"the network is updated in place, and its members stay",
			[]plan.Wanted{volume(), func() plan.Wanted { w := net(); w.Digest = "n2"; return w }(), container()}, []plan.Known{there(), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.None, "net": plan.Update, "web": plan.None},
		},
		{
			"an apply was interrupted after the volume was made anew",
			[]plan.Wanted{volume(), net(), container()}, []plan.Known{there(func(k *plan.Known) { k.ID = "10-1" }), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.None, "net": plan.None, "web": plan.Replace},
		},
		{
			"the container was signed without hashes",
			[]plan.Wanted{volume(), net(), container()}, []plan.Known{there(hashed("d")), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.None, "net": plan.None, "web": plan.None},
		},
		{
			"the container names the volume's hash, and an older one of the network",
			[]plan.Wanted{volume(), net(), container()}, []plan.Known{there(hashed("d")), hashedNet("n2"), containerNaming("d", "n")},
			map[string]plan.Action{"data": plan.None, "net": plan.None, "web": plan.None},
		},
		{
			"the volume was made anew under the same ID",
			[]plan.Wanted{volume(), net(), container()}, []plan.Known{there(hashed("d2")), hashedNet("n"), containerNaming("d", "n")},
			map[string]plan.Action{"data": plan.None, "net": plan.None, "web": plan.Replace},
		},
		{
			"the container alone has changed",
			[]plan.Wanted{volume(), net(), func() plan.Wanted { w := container(); w.Digest = "c2"; return w }()}, []plan.Known{there(), netThere(), containerThere()},
			map[string]plan.Action{"data": plan.None, "net": plan.None, "web": plan.Replace},
		},
	} {
		t.Run(c.when, func(t *testing.T) {
			for _, got := range plan.Make(plan.Input{Now: moment(), Wanted: c.wanted, Known: c.known}).Changes {
				if got.Action != c.then[got.Name] {
					t.Errorf("%s: %s (%s), want %s", got.Name, got.Action, got.Reason, c.then[got.Name])
				}
			}
		})
	}
}

func TestLosingCountsOnlyCarriedOutChanges(t *testing.T) {
	p := plan.Make(plan.Input{Now: moment(), Known: []plan.Known{there()}})
	if len(p.Losing(false)) != 0 || len(p.Losing(true)) != 1 {
		t.Errorf("a deletion loses data with --prune only: %v, %v", p.Losing(false), p.Losing(true))
	}
}

// TestPlanProperties: whatever is known, a plan has one change for each name,
// and carrying it out leads to a plan without changes.
func TestPlanProperties(t *testing.T) {
	phases := []plan.Phase{plan.Unpushed, plan.Pending, plan.Deployed, plan.Failed, plan.Ended, plan.Lost}
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		in := plan.Input{Now: moment(), Recreate: true}
		for i, name := range names {
			digest := rapid.SampledFrom([]string{"x", "y"})
			if rapid.Bool().Draw(t, "wanted "+name) {
				w := plan.Wanted{Name: name, Type: workload.TypeVolume, Node: "n", Digest: digest.Draw(t, "digest"), Duration: time.Duration(rapid.IntRange(1, 60).Draw(t, "days")) * day}
				for _, before := range in.Wanted {
					if rapid.Bool().Draw(t, "uses "+before.Name) {
						w.Uses = append(w.Uses, before.Name)
					}
				}
				in.Wanted = append(in.Wanted, w)
			}
			if rapid.Bool().Draw(t, "known "+name) {
				in.Known = append(in.Known, there(func(k *plan.Known) {
					k.Name, k.ID, k.Digest = name, string(rune('0'+i))+"-1", digest.Draw(t, "known digest")
					k.Phase = rapid.SampledFrom(phases).Draw(t, "phase")
					k.Expires = moment().Add(time.Duration(rapid.IntRange(-5, 60).Draw(t, "left")) * day)
				}))
			}
		}
		p := plan.Make(in)
		seen := map[string]bool{}
		for _, c := range p.Changes {
			if seen[c.Name] {
				t.Fatalf("%s is there twice: %+v", c.Name, p.Changes)
			}
			seen[c.Name] = true
		}
		for _, k := range in.Known {
			if !seen[k.Name] {
				t.Fatalf("%s is forgotten", k.Name)
			}
		}
		in.Known = carriedOut(in, p)
		if again := plan.Make(in); again.Changed() {
			t.Fatalf("carried out, and there is still something to do: %+v\nafter %+v", again.Changes, p.Changes)
		}
	})
}

// carriedOut is the known workloads once p was carried out with --prune.
func carriedOut(in plan.Input, p plan.Plan) []plan.Known {
	wanted, known := map[string]plan.Wanted{}, map[string]plan.Known{}
	for _, w := range in.Wanted {
		wanted[w.Name] = w
	}
	for _, k := range in.Known {
		known[k.Name] = k
	}
	for i, c := range p.Changes {
		w, k := wanted[c.Name], known[c.Name]
		switch c.Action {
		case plan.Delete:
			delete(known, c.Name)
			continue
		case plan.Renew:
			k.Expires, k.Duration = c.Expires, w.Duration
		case plan.Resume:
			k.Phase = plan.Pending
		case plan.Create, plan.Replace:
			k = plan.Known{Name: w.Name, Type: w.Type, Node: w.Node, Network: w.Network, ID: string(rune('a'+i)) + "-1", Digest: w.Digest,
				Duration: w.Duration, Created: in.Now, Expires: in.Now.Add(w.Duration), Phase: plan.Deployed, Uses: map[string]string{},
				Hash: "hash of " + string(rune('a'+i)), Hashes: map[string]string{}}
			for _, u := range w.Uses {
				k.Uses[u], k.Hashes[u] = known[u].ID, known[u].Hash
			}
		}
		known[c.Name] = k
	}
	var out []plan.Known
	for _, k := range known {
		out = append(out, k)
	}
	return out
}
