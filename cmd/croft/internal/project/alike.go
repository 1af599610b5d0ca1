package project

import (
	"encoding/json"
	"reflect"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// unread stands for a secret in data that is compared: nobody but its node can
// open a sealed one.
const unread = "\x00secret"

// Alike reports whether w would be signed with the same data now, known being the
// reservations that it refers to. Secrets can't be compared: an existing one is
// taken for the file's. A hash of a volume in data must be right; a network is
// updated under its name, and any hash of it will do.
func (w *Workload) Alike(data json.RawMessage, known Targets, open func(*Secret) (string, error)) (bool, error) {
	own, err := w.Data(known, open, func(*Secret) (string, error) { return unread, nil })
	if err != nil {
		return false, err
	}
	var wanted, there any
	if err := json.Unmarshal(own, &wanted); err != nil {
		return false, errors.Wrapf(err, "cannot compare the data of %q", w.Name)
	}
	if err := json.Unmarshal(data, &there); err != nil {
		return false, errors.Wrapf(err, "cannot compare the data of %q", w.Name)
	}
	if members, ok := there.(map[string]any); ok && w.Type == workload.TypeContainer {
		delete(members, "name") // it is none of the file's
	}
	return alike(wanted, there), nil
}

func alike(wanted, there any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		t, ok := there.(map[string]any)
		return ok && alikeMembers(w, t)
	case []any:
		t, ok := there.([]any)
		if !ok || len(t) != len(w) {
			return false
		}
		for i := range w {
			if !alike(w[i], t[i]) {
				return false
			}
		}
		return true
	case string:
		if w == unread {
			text, ok := there.(string)
			return ok && text != ""
		}
	}
	return reflect.DeepEqual(wanted, there)
}

func alikeMembers(wanted, there map[string]any) bool {
	for name := range there {
		if _, ok := wanted[name]; !ok {
			return false
		}
	}
	for name, w := range wanted {
		t, ok := there[name]
		switch {
		case name == networkHash, name == volumeHash && !ok:
		case !ok || !alike(w, t):
			return false
		}
	}
	return true
}
