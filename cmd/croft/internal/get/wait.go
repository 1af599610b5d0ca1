package get

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/stateview"
)

// mostListed bounds the resources that a timeout's error describes.
const mostListed = 5

// wait waits until the one resource, or all that are listed and at least one, have the condition.
func (g Getter) wait(ctx context.Context, t stateview.Type, r Request) ([]stateview.Document, error) {
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	seen, whole := map[string]stateview.Document{}, false
	done := func() bool {
		if !whole || len(seen) == 0 {
			return false
		}
		for _, d := range seen {
			if !r.WaitFor.holds(d) {
				return false
			}
		}
		return true
	}
	err := g.follow(limited, t, r, func(c change) (bool, error) {
		if c.Event == destroyed {
			delete(seen, c.Metadata.ID)
		} else {
			seen[c.Metadata.ID] = c.Document
		}
		return !done(), nil
	}, func() (bool, error) {
		whole = true
		return !done(), nil
	})
	docs := sorted(seen)
	if limited.Err() != nil && ctx.Err() == nil && !whole {
		return nil, errors.Errorf("cannot wait any longer for %s: the node hasn't answered for %s", r.WaitFor, r.Timeout)
	}
	if limited.Err() != nil && ctx.Err() == nil && err != nil {
		return nil, errors.Errorf("cannot wait any longer for %s: after %s %s", r.WaitFor, r.Timeout, now(t, r, docs))
	}
	return docs, err
}

func sorted(seen map[string]stateview.Document) []stateview.Document {
	out := make([]stateview.Document, 0, len(seen))
	for _, d := range seen {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b stateview.Document) int { return strings.Compare(a.Metadata.ID, b.Metadata.ID) })
	return out
}

// holds is whether a resource has the condition.
func (w Wanted) holds(d stateview.Document) bool {
	return slices.ContainsFunc(d.Conditions(), func(c stateview.Condition) bool { return c.Type == w.Type && c.Status == w.Status })
}

// now says how far the resources are that lack the condition.
func now(t stateview.Type, r Request, docs []stateview.Document) string {
	var out []string
	more := 0
	for _, d := range docs {
		switch {
		case r.WaitFor.holds(d):
		case len(out) == mostListed:
			more++
		default:
			out = append(out, fmt.Sprintf("%s %s %s", t.Display, d.Metadata.ID, r.WaitFor.describe(d)))
		}
	}
	switch {
	case len(docs) == 0 && r.ID != "":
		return fmt.Sprintf("there is no %s %s", t.Display, r.ID)
	case len(docs) == 0:
		return fmt.Sprintf("there is no %s", t.Display)
	case more > 0:
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// describe says what a resource has instead of the condition.
func (w Wanted) describe(d stateview.Document) string {
	var others []string
	for _, c := range d.Conditions() {
		if c.Type == w.Type {
			text := fmt.Sprintf("has %s=%s", c.Type, c.Status)
			if c.Reason != "" || c.Message != "" {
				text += fmt.Sprintf(" (%s)", strings.Trim(c.Reason+": "+c.Message, ": "))
			}
			return text
		}
		others = append(others, c.Type)
	}
	if len(others) == 0 {
		return "has no conditions"
	}
	return fmt.Sprintf("has no condition %s, but %s", w.Type, strings.Join(others, ", "))
}
