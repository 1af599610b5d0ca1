package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/pkg/node"
)

// The record still names the owner of a container that containerd has lost.
func TestOwnerOfALostContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running()
	<-w.ran // the sweep of a start would take what a lost container stood on for left over
	spec := w.spec("1-1", "serve")
	spec.Hash = strings.Repeat("1a", 32)
	_, err := w.Create(spec)
	must(t, err)
	ctx, _ := w.behind("ada")
	must(t, w.load("1-1").Delete(ctx))
	theirs := spec
	for _, hash := range []string{strings.Repeat("2b", 32), ""} {
		theirs.Hash, theirs.AdoptUnlabelled = hash, true
		if _, err := w.Create(theirs); node.KindOf(err) != node.Exist {
			t.Errorf("with hash %q: %v", hash, err)
		}
	}
	if made, err := w.Create(spec); err != nil || made.Hash != spec.Hash {
		t.Errorf("made again as %+v, %v", made, err)
	}
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1")
}

// A container that containerd has lost is made again although its process still runs, and keeps
// its layer.
func TestLostContainerIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running()
	<-w.ran
	for id, lost := range map[string]func(node.ContainerSpec) int{
		"1-1": func(s node.ContainerSpec) int { return int(w.runs(s).PID) },
		"1-2": func(s node.ContainerSpec) int {
			_, err := w.Create(s)
			must(t, err)
			return int(w.ready(s.ID))
		},
	} {
		spec := w.spec(id, "serve")
		was := lost(spec)
		r, _ := w.module.table.Record(id)
		written := filepath.Join(r.Root.Layer, "upper", "written")
		must(t, os.WriteFile(written, nil, 0o600))
		ctx, c := w.behind("ada")
		must(t, c.ContainerService().Delete(ctx, id))
		_, err := w.Create(spec)
		must(t, err)
		if runs, err := os.Readlink("/proc/" + strconv.Itoa(was) + "/exe"); was == 0 || err == nil {
			t.Errorf("%s: process %d still runs %s", id, was, runs)
		}
		again, err := w.Start(id)
		must(t, err)
		if _, err := os.Stat(written); err != nil {
			t.Errorf("%s: what it had written: %v", id, err)
		}
		if int(again.PID) == was || again.State != node.ContainerRunning {
			t.Errorf("%s: made again as %+v", id, again)
		}
		must(t, w.Delete(id))
		w.nothingLeft(id)
	}
}

// An agent died after it wrote the hash to the label, before it wrote it to the record.
func TestInterruptedAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := w.spec("1-1", "serve")
	running := w.runs(spec)
	spec.Hash, spec.AdoptUnlabelled = strings.Repeat("1a", 32), true
	ctx, _ := w.behind("ada")
	must(t, w.load("1-1").Update(ctx, client.UpdateContainerOpts(client.WithAdditionalContainerLabels(map[string]string{plan.LabelHash: spec.Hash}))))
	w.close()
	w.open()
	adopted, err := w.Create(spec)
	must(t, err)
	r, _ := w.module.table.Record("1-1")
	if adopted.Hash != spec.Hash || adopted.PID != running.PID || r.Hash != spec.Hash {
		t.Errorf("adopted as %+v, was %+v, its record has %q", adopted, running, r.Hash)
	}
}
