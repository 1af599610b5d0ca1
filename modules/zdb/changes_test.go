package zdb_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	changesconformance "github.com/croft-edge/croft/pkg/node/conformance/changes"
	"github.com/croft-edge/croft/pkg/workload"
)

// Two zdbs end and come again. Of the namespaces in them each has one reservation's; a third one has none. A module that has
// just started knows them from its first look.
func TestChangesConform(t *testing.T) {
	w := newWorld(t)
	const none = "zdb-ssd0-seq"
	of := map[string]string{"1-1": one, "3-1": "zdb-hdd0-user"}
	for container, names := range map[string][]string{of["1-1"]: {"1-1", "2-1", "croft-own"}, of["3-1"]: {"3-1"}, none: {"croft-own"}} {
		w.attach(container, workload.ZDBUser)
		for _, name := range names {
			_, err := w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: container, Name: name, Size: 1 << 20})
			must(t, err)
		}
	}
	must(t, w.stub.Delete(t.Context(), one, "2-1"))
	again := func(container string) {
		w.kill(container)
		w.drift(container, "doesn't answer")
		w.start(container, workload.ZDBUser)
		w.drift(container, "")
	}
	changesconformance.Suite(t, changesconformance.Subject{
		Changes: w.module.Changes(), One: "1-1", Other: "3-1",
		Change:  func(_ *testing.T, id string) { again(of[id]) },
		Foreign: func(*testing.T) { again(none) },
		Restart: func(*testing.T) node.Changes {
			w.restart()
			for _, container := range []string{of["1-1"], of["3-1"], none} {
				w.drift(container, "")
			}
			return w.module.Changes()
		},
	})
}
