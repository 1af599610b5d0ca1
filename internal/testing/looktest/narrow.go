// Package looktest compares a provisioner's two ways to look at its workloads.
package looktest

import (
	"context"
	"maps"
	"testing"

	"github.com/croft-edge/croft/provision/provisioner"
)

// Provisioner looks in both ways.
type Provisioner interface {
	provisioner.Watched
	provisioner.Narrow
}

// Same fails the test unless a look at some workloads shows what a look at all has shown of
// these: of all at once, of each alone, and of one that isn't there.
func Same(t testing.TB, p Provisioner, seen map[provisioner.Label]provisioner.Seen) {
	t.Helper()
	ids := provisioner.IDs(seen)
	same(t, p, append(ids, "987-6"), seen)
	for _, id := range ids {
		same(t, p, []string{id}, seen)
	}
	same(t, p, []string{"987-6"}, seen)
}

func same(t testing.TB, p Provisioner, ids []string, seen map[provisioner.Label]provisioner.Seen) {
	t.Helper()
	asked := map[string]bool{}
	for _, id := range ids {
		asked[id] = true
	}
	others := func(l provisioner.Label, _ provisioner.Seen) bool { return !asked[l.ID] }
	want := maps.Clone(seen)
	maps.DeleteFunc(want, others)
	got, err := p.LookAt(context.Background(), ids)
	if maps.DeleteFunc(got, others); err != nil || !maps.Equal(got, want) {
		t.Errorf("a look at %v alone shows %v, %v; want %v", ids, got, err, want)
	}
}
