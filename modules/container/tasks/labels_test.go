package tasks

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestLabels generates lives of one user's containers, with looks at them between and across the changes, and holds that no look
// shows labels that a container didn't have at some time during the look, nor leaves one out that has a task all the time.
func TestLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &labelWorld{labels: &Labels{}, is: map[string]string{}, withTask: map[string]bool{}}
		ids := rapid.SampledFrom([]string{"1-1", "2-1", "3-1"})
		t.Repeat(map[string]func(*rapid.T){
			"make":   func(t *rapid.T) { w.change(ids.Draw(t, "id"), rapid.StringMatching(`[a-c]`).Draw(t, "label")) },
			"delete": func(t *rapid.T) { w.remove(ids.Draw(t, "id")) },
			"start": func(t *rapid.T) {
				if id := ids.Draw(t, "id"); w.is[id] != "" {
					w.withTask[id] = true
				}
			},
			"end":  func(t *rapid.T) { delete(w.withTask, ids.Draw(t, "id")) },
			"live": func(*rapid.T) { w.tell(); w.labels.Live(); w.live = true },
			"lost": func(*rapid.T) { w.labels.Lost(); w.live = false },
			"hear": func(*rapid.T) { w.tell() },
			"look": func(t *rapid.T) { w.look(t, nil) },
			"look across a change": func(t *rapid.T) {
				id, label := ids.Draw(t, "id"), rapid.StringMatching(`[a-c]`).Draw(t, "label")
				w.look(t, func() { w.change(id, label) })
			},
		})
	})
}

// labelWorld is containerd with one user's containers: each has one label.
type labelWorld struct {
	labels   *Labels
	is       map[string]string
	withTask map[string]bool
	live     bool
	// untold is whether there is an event that wasn't heard yet.
	untold bool
}

// change makes a container, or labels it anew, as croft does.
func (w *labelWorld) change(id, label string) {
	w.is[id] = label
	w.labels.Forget("u")
}

// remove deletes a container, as anybody may: the event comes later. Its task ends with it.
func (w *labelWorld) remove(id string) {
	if w.is[id] != "" {
		delete(w.is, id)
		delete(w.withTask, id)
		w.untold = w.live
	}
}

func (w *labelWorld) tell() {
	if w.untold {
		w.labels.Forget("u")
		w.untold = false
	}
}

// look looks at the containers as Index.All does; between runs between the listing and the keeping of it.
func (w *labelWorld) look(t *rapid.T, between func()) {
	before := maps.Clone(w.is)
	of, _, epoch := w.labels.Kept("u")
	if of != nil && !w.live {
		t.Error("labels were kept that nothing vouches for")
	}
	if of == nil || !sameKeys(of, w.withTask) {
		of = map[string]map[string]string{}
		for id, label := range w.is {
			of[id] = map[string]string{"l": label}
		}
		if between != nil {
			between()
		}
		keep(w.labels, "u", epoch, of, func(id string) bool { return w.withTask[id] })
	}
	for id := range w.withTask {
		if of[id] == nil {
			t.Errorf("container %s, which has a task, isn't shown", id)
		}
	}
	for id, l := range of {
		if l["l"] != before[id] && l["l"] != w.is[id] {
			t.Errorf("container %s is shown with label %q: it has %q, and had %q", id, l["l"], w.is[id], before[id])
		}
	}
}

func TestNoLabelsAreKeptWithoutAKeeper(t *testing.T) {
	var none *Labels
	none.Live()
	none.Forget("u")
	none.Only(nil)
	_, _, epoch := none.Kept("u")
	keep(none, "u", epoch, map[string]map[string]string{"1-1": {}}, func(string) bool { return true })
	if of, is, _ := none.Kept("u"); of != nil || is {
		t.Error("nil Labels has kept something")
	}
	none.Lost()
}

// TestLabelsOfUsersThatAreGoneAreForgotten holds that what is kept is bounded by the users who have containers.
func TestLabelsOfUsersThatAreGoneAreForgotten(t *testing.T) {
	var l Labels
	l.Live()
	for _, user := range []string{"a", "b"} {
		_, _, epoch := l.Kept(user)
		keep(&l, user, epoch, map[string]map[string]string{"1-1": {}}, func(string) bool { return true })
	}
	_, _, epoch := l.Kept("c")
	keep(&l, "c", epoch, map[string]map[string]string{}, func(string) bool { return true })
	keep(&l, "d", epoch, map[string]map[string]string{"1-1": {}, "2-1": {}}, func(id string) bool { return id == "1-1" })
	l.Only([]string{"b", "c", "d"})
	for _, user := range []string{"a", "b", "c", "d"} {
		if of, is, _ := l.Kept(user); is != (user == "b") || is && of == nil {
			t.Errorf("kept of %s is %v, %v; must be only those of b", user, of, is)
		}
	}
}
