package container

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/node"
	changesconformance "github.com/croft-edge/croft/pkg/node/conformance/changes"
)

// hearsAll makes the module anew, with a new stream of changes, and returns once it tells all that containerd does: it says
// Lost then. Its looks are so rare that they find nothing.
func (w *world) hearsAll(t *testing.T) {
	t.Helper()
	w.close()
	w.rarely, w.told = true, changes.New()
	e := changesconformance.Listen(t, w.told)
	w.open()
	e.HearsLost("the beginning")
}

// Two containers are paused and resumed; of the same containerd, what is in another program's namespace is nobody's here,
// whatever its name is.
func TestChangesConform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hearsAll(t)
	for _, id := range []string{"1-1", "2-1"} {
		w.runs(w.spec(id, "serve"))
	}
	changesconformance.Suite(t, changesconformance.Subject{
		Changes: w.told, One: "1-1", Other: "2-1",
		Change: func(t *testing.T, id string) {
			t.Helper()
			in, task := w.task(id)
			must(t, task.Pause(in))
			must(t, task.Resume(in))
		},
		Foreign: func(t *testing.T) {
			t.Helper()
			_, c := w.behind("ada")
			in := namespaces.WithNamespace(t.Context(), "someones")
			made, err := c.NewContainer(in, "9-1", client.WithRuntime("io.containerd.runc.v2", nil), client.WithNewSpec())
			must(t, err)
			must(t, made.Update(in, func(_ context.Context, _ *client.Client, c *containers.Container) error {
				c.Labels = map[string]string{"a": "b"}
				return nil
			}))
			must(t, made.Delete(in))
		},
		Restart: func(t *testing.T) node.Changes {
			t.Helper()
			w.hearsAll(t)
			return w.told
		},
	})
}

func TestChangesOfContainersAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hearsAll(t)
	one := w.starts(w.spec("1-1", "serve"))
	w.starts(w.spec("2-1", "serve"))
	e := changesconformance.Listen(t, w.told)

	must(t, syscall.Kill(int(one.PID), syscall.SIGKILL))
	e.HearsOnly("a killed process", "1-1")
	w.is("1-1", "running again", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning && i.Restarts == 1 })
	e.Calm()

	must(t, unix.Unmount(filepath.Join(w.cfg.RunDir, "container", "2-1", "net"), unix.MNT_DETACH))
	e.HearsOnly("a mount", "2-1")
	if all, err := w.List(); err != nil || len(all) != 2 || all[0].Drift != "" || all[1].Drift == "" {
		t.Errorf("is %+v, %v", all, err)
	}

	in, task := w.task("1-1")
	must(t, task.Pause(in))
	e.HearsOnly("a paused container", "1-1")
	if all, err := w.List(); err != nil || len(all) != 2 || all[0].Drift == "" {
		t.Errorf("while it is paused it is %+v, %v", all, err)
	}
	must(t, task.Resume(in))
	e.HearsOnly("a resumed container", "1-1")
	found := w.load("1-1")
	// Faster than croft, which starts it again.
	eventually(t, "it is removed", func() bool {
		if again, err := found.Task(in, nil); err == nil {
			_, _ = again.Delete(in, client.WithProcessKill)
		}
		return found.Delete(in) == nil
	})
	e.HearsOnly("a removed container", "1-1")
	if all, err := w.List(); err != nil || len(all) != 1 || all[0].ID != "2-1" {
		t.Errorf("after one is removed there are %+v, %v", all, err)
	}
}

// Nothing is vouched for while containerd is away, and all that may have happened meanwhile
// is told as lost.
func TestContainerdsEndIsToldAsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.starts(w.spec("1-1", "serve"))
	e := changesconformance.Listen(t, w.told)
	must(t, syscall.Kill(w.containerd(), syscall.SIGKILL))
	e.HearsLost("containerd's end")
	e.HearsLost("containerd's return")
	w.is("1-1", "running", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning })
}

// The module's own change is in the next list, though containerd's event may come later: a container beside has its user's labels kept.
func TestListHasOwnChangesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changesconformance.Listen(t, w.told)
	w.starts(w.spec("2-1", "serve"))
	hashes := func() map[string]string {
		t.Helper()
		all, err := w.List()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, one := range all {
			if one.State != node.ContainerRunning {
				t.Errorf("%s is %s", one.ID, one.State)
			}
			out[one.ID] = one.Hash
		}
		return out
	}
	first := w.spec("1-1", "serve")
	first.AdoptUnlabelled = true
	for i := range 5 {
		// It is made anew, and claimed: its labels change with no look between.
		for _, hash := range []string{"", fmt.Sprintf("%064d", i)} {
			first.Hash = hash
			w.starts(first)
			if got, want := hashes(), map[string]string{"1-1": hash, "2-1": ""}; !maps.Equal(got, want) {
				t.Fatalf("after a start there are %v, must be %v", got, want)
			}
		}
		must(t, w.Delete("1-1"))
	}
	if got, want := hashes(), map[string]string{"2-1": ""}; !maps.Equal(got, want) {
		t.Fatalf("after its end there are %v, must be %v", got, want)
	}
}

// containerd tells of an image that another program removes: the list from before isn't shown any longer.
func TestImagesThatOthersRemoveArentShown(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, true)
	w.hearsAll(t)
	reference := filepath.Join(w.cfg.Image.Sources.Paths[0], "server")
	_, err := imagetest.New().File("/name", "one", 0o644).Layout(reference)
	must(t, err)
	listed := func() int {
		all, err := w.module.Images().List()
		must(t, err)
		return len(all)
	}
	for _, id := range []string{"1-1", "1-2"} {
		eventually(t, "the image is there", func() bool {
			i, err := w.module.Images().Pull(node.ImageSpec{Label: id, Reference: reference, User: "ada"})
			return err == nil && i.Ready
		})
	}
	if n := listed(); n != 2 {
		t.Fatalf("%d images are listed, want 2", n)
	}
	in, c := w.behind("ada")
	for left, id := range []string{"1-1", "1-2"} {
		must(t, c.ImageService().Delete(in, "croft.local/label/"+id))
		eventually(t, "it isn't listed any longer", func() bool { return listed() == 1-left })
	}
}
