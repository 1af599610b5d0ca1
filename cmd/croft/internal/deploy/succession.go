package deploy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// named is a container's data with the name under which another may take its place:
// that of the one which stands for w on the same node, else one of its own, so that
// two projects never have the same.
func (d *Deployer) named(w *project.Workload, data json.RawMessage) (json.RawMessage, error) {
	if w.Type != workload.TypeContainer {
		return data, nil
	}
	name := ""
	if e := d.State.Current[w.Name]; e != nil && e.Node == w.Node {
		name = containerName(e)
	}
	if name == "" {
		random := make([]byte, 8)
		if _, err := rand.Read(random); err != nil {
			return nil, errors.Wrapf(err, "cannot make the name of %q", w.Name)
		}
		name = prefix(w.Name) + "-" + hex.EncodeToString(random)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, errors.Wrapf(err, "cannot make the data of %q", w.Name)
	}
	members["name"] = json.RawMessage(`"` + name + `"`)
	out, err := json.Marshal(members)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot make the data of %q", w.Name)
	}
	return workload.Canonical(out)
}

// mostPrefix is how much of a workload's name is in its container's.
const mostPrefix = 40

// prefix is what of a workload's name may be in a container's: for people only.
func prefix(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, name)
	plain = strings.Trim(plain[:min(len(plain), mostPrefix)], "-")
	if plain == "" {
		return string(workload.TypeContainer)
	}
	return plain
}

// containerName is the name in an entry's document; empty for none.
func containerName(e *state.Entry) string {
	r, err := e.Reservation()
	if err != nil || r.Type != workload.TypeContainer {
		return ""
	}
	data, err := workload.DataOf[workload.Container](r)
	if err != nil {
		return ""
	}
	return data.Name
}

// runsInPlaceOf is the ID of the one before e that its node says runs, empty when
// there is none.
func runsInPlaceOf(e *state.Entry, look func(*state.Entry) (Observation, error)) string {
	for i := len(e.Before) - 1; i >= 0; i-- {
		if o, err := look(e.Before[i]); err == nil && phase(o.Verdict) == plan.Deployed {
			return e.Before[i].ID
		}
	}
	return ""
}

// older says of a target that failed what runs in its place.
func (d *Deployer) older(e *state.Entry) func(ctx context.Context) string {
	return func(ctx context.Context) string {
		return runsInPlaceOf(e, func(b *state.Entry) (Observation, error) { return d.Observe(ctx, b) })
	}
}

// leaveBefore signs the deletions of those before an entry that leaves: where its node
// has given it up, one of them runs.
func (d *Deployer) leaveBefore(ctx context.Context, e *state.Entry) ([]*state.Entry, error) {
	var out []*state.Entry
	for _, b := range e.Before {
		o, err := d.Observe(ctx, b)
		if err != nil {
			return out, err
		}
		if b.ID == "" || phase(o.Verdict) == plan.Ended {
			e.Drop(b)
			continue
		}
		r, err := b.Reservation()
		if err != nil {
			return out, err
		}
		if err := r.SignDeletion(workload.Deletion{Created: d.Now()}, d.Key.Private()); err != nil {
			return out, err
		}
		d.State.LeaveBefore(e, b, r.Deletion)
		out = append(out, b)
	}
	return out, nil
}

// tidyBefore forgets those before the current entries that have ended, or have failed
// and nothing stands before or behind them that they could come back for.
func (d *Deployer) tidyBefore(seen map[*state.Entry]Observation) {
	for _, name := range d.State.Names() {
		e := d.State.Current[name]
		deployed := phase(seen[e].Verdict) == plan.Deployed
		for _, b := range e.Before {
			o, ok := seen[b]
			if !ok {
				continue
			}
			p := phase(o.Verdict)
			if p == plan.Ended || deployed && p == plan.Failed || o.Expires.Before(d.Now()) {
				e.Drop(b)
			}
		}
		if phase(seen[e].Verdict) == plan.Ended || seen[e].Document != nil && !seen[e].Expires.After(d.Now()) {
			d.back(e, seen)
		}
	}
}

// back has the one before e that runs stand for its name again, once e is over.
func (d *Deployer) back(e *state.Entry, seen map[*state.Entry]Observation) {
	for i := len(e.Before) - 1; i >= 0; i-- {
		if phase(seen[e.Before[i]].Verdict) == plan.Deployed {
			e.Before = e.Before[:i+1]
			d.State.Back(e)
			return
		}
	}
}

// lastLines are the last that a container said which failed, as its node has sealed
// them to its user.
func (d *Deployer) lastLines(o Observation) []string {
	var data workload.ContainerFailure
	if !o.Verified || o.Problem != "" || json.Unmarshal(o.Data, &data) != nil || data.LastLines == "" {
		return nil
	}
	box, err := hex.DecodeString(data.LastLines)
	if err != nil {
		return nil
	}
	text, err := d.Key.Open(box)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
