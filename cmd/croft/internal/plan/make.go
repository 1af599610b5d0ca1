package plan

import (
	"fmt"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/pkg/workload"
)

// Make makes the plan.
func Make(in Input) Plan {
	m := maker{Input: in, known: map[string]Known{}, anew: map[string]bool{}}
	for _, k := range in.Known {
		m.known[k.Name] = k
	}
	var out Plan
	wanted := map[string]bool{}
	for _, w := range in.Wanted {
		wanted[w.Name] = true
		c := m.apart(w, m.change(w))
		m.anew[w.Name] = c.Action == Create || c.Action == Replace
		out.Changes = append(out.Changes, c)
	}
	for _, k := range in.Known {
		if !wanted[k.Name] {
			out.Changes = append(out.Changes, m.orphan(k))
		}
	}
	return out
}

// maker makes one plan.
type maker struct {
	Input
	known map[string]Known
	// anew are the workloads that get a new ID.
	anew map[string]bool
}

func (m maker) change(w Wanted) Change {
	k, there := m.known[w.Name]
	c := Change{Name: w.Name, Type: w.Type, Node: w.Node, ID: k.ID}
	if !there {
		c.Action = Create
		return c
	}
	if !m.now(w, k, &c) && !m.differs(w, k, &c) {
		m.lives(w, k, &c)
	}
	return c
}

// apart keeps w from taking over a network that isn't of this project.
func (m maker) apart(w Wanted, c Change) Change {
	if w.Type != workload.TypeNetwork || c.Action != Create && c.Action != Replace {
		return c
	}
	for _, o := range m.Outside {
		if o.Node == w.Node && o.Network == w.Network {
			c.Action, c.LosesData, c.Takes, c.Stops = Blocked, false, o.ID, true
			c.Reason = fmt.Sprintf("you have %s on this node, reservation %s, not in this project, and the node would take this for its update; "+
				"`croft import %s=%s` takes it over, another name keeps both apart", w.Network, o.ID, w.Name, o.ID)
			return c
		}
	}
	return c
}

// now decides by the reservation's phase, whatever the file asks for.
func (m maker) now(w Wanted, k Known, c *Change) bool {
	switch {
	case k.Phase == Lost && !m.Recreate:
		c.Action, c.Reason = Blocked, fmt.Sprintf("the explorer doesn't know %s: it is another explorer, or was restored from an older backup; "+
			"push %s again only if you are sure, with --recreate", k.ID, k.Name)
	case k.Phase == Lost:
		c.Action, c.Reason = Create, "the explorer doesn't know "+k.ID
	case k.Phase == Ended:
		c.Action, c.Reason = Create, because(k.ID+" has ended", k.Why)
	case !m.Now.Before(k.Expires) && k.Phase == Unpushed:
		c.Action, c.Reason = Create, "the signed document expired before it was pushed"
	case !m.Now.Before(k.Expires):
		c.Action, c.Reason = Create, k.ID+" has expired"
	case k.Phase == Failed && k.Older != "" && m.inPlace(w, k):
		c.Action, c.Reason, c.Hint = Update, because(k.ID+" has failed", k.Why), k.Older+" runs until another has taken its place"
	case k.Phase == Failed:
		c.Action, c.Reason = Replace, because(k.ID+" has failed", k.Why)
	default:
		return false
	}
	return true
}

// differs compares the file with the reservation.
func (m maker) differs(w Wanted, k Known, c *Change) bool {
	reason := ""
	switch {
	case w.Type != k.Type:
		reason = fmt.Sprintf("it was a %s", k.Type)
	case w.Node != k.Node:
		reason = "it was on node " + k.Node
	case w.Digest != k.Digest:
		reason = "it has changed in the file"
	default:
		reason = m.moved(w, k)
	}
	if reason == "" {
		return false
	}
	c.Action, c.Reason = Replace, reason
	if w.Type == workload.TypeNetwork && k.Type == w.Type && k.Node == w.Node && k.Network == w.Network {
		c.Action = Update
		return true
	}
	if m.inPlace(w, k) {
		c.Action, c.Hint = Update, layerGoes
		return true
	}
	c.LosesData = holdsData(k.Type)
	return true
}

// layerGoes warns of the writable layer that an update of a container loses.
const layerGoes = "its files outside of volumes are lost once the new one runs"

// inPlace reports whether a container can be changed by another that takes its place.
// One whose volume is made anew, or was, is stopped for that anyway.
func (m maker) inPlace(w Wanted, k Known) bool {
	return w.Type == workload.TypeContainer && k.Type == w.Type && k.Node == w.Node && k.Named && m.moved(w, k) == ""
}

// moved says which of the workloads that w refers to is made anew, or was.
func (m maker) moved(w Wanted, k Known) string {
	for _, name := range w.Uses {
		if m.anew[name] {
			return fmt.Sprintf("its %s %q is recreated", m.typeOf(name), name)
		}
		now := m.known[name]
		id, ok := k.Uses[name]
		if (ok && now.ID != "" && id != now.ID) || m.otherHash(now, k.Hashes[name]) {
			return fmt.Sprintf("its %s %q was recreated as %s", m.typeOf(name), name, now.ID)
		}
	}
	return ""
}

// otherHash reports whether a dependant's data names, by its hash, another
// reservation than now's: an explorer may give two the same ID. A network is updated
// in place, and the hash of an older reservation of it stays valid.
func (m maker) otherHash(now Known, named string) bool {
	return now.Type != workload.TypeNetwork && now.Hash != "" && named != "" && now.Hash != named
}

func (m maker) typeOf(name string) workload.Type {
	for _, w := range m.Wanted {
		if w.Name == name {
			return w.Type
		}
	}
	return ""
}

// lives looks at the time it has left; the rest is as the file asks.
func (m maker) lives(w Wanted, k Known, c *Change) {
	c.Action = None
	if k.Phase == Unpushed {
		c.Action, c.Reason = Resume, "it was signed before, and the explorer's answer isn't known"
		return
	}
	if until := k.Created.Add(w.Duration); w.Duration > k.Duration && until.After(k.Expires) {
		c.Action, c.Expires, c.Reason = Renew, until, fmt.Sprintf("the duration is %s now, was %s", lifetime.Text(w.Duration), lifetime.Text(k.Duration))
		return
	}
	switch left := k.Expires.Sub(m.Now); {
	case left < k.Expires.Sub(k.Created)/10:
		c.Hint = fmt.Sprintf("it expires in %s; `croft renew %s` prolongs it", lifetime.Text(left), w.Name)
	case w.Duration < k.Duration:
		c.Hint = "a shorter duration takes effect when it is recreated"
	}
}

// orphan decides on a reservation that isn't in the file any more.
func (m maker) orphan(k Known) Change {
	c := Change{Name: k.Name, Type: k.Type, Node: k.Node, ID: k.ID, Action: Delete, Reason: "it isn't in the file any more"}
	switch {
	case k.Phase == Ended || !m.Now.Before(k.Expires):
		c.Gone, c.Reason = true, because("it isn't in the file any more, and has ended", k.Why)
	case k.Phase != Failed && k.Phase != Lost:
		c.LosesData = holdsData(k.Type)
	}
	return c
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// holdsData reports whether a workload of that type holds data that goes with it.
func holdsData(t workload.Type) bool {
	return t == workload.TypeVolume || t == workload.TypeZDB || t == workload.TypeKubernetes
}
