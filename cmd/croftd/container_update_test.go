package main_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// updates is a node with a named container, a volume, and a file in the container's layer.
type updates struct {
	*boxes
	volume *workload.Reservation
	web    *workload.Reservation
	url    string
}

func newUpdates(b *boxes) *updates {
	u := &updates{boxes: b, volume: b.volume()}
	u.web = u.next("/bin/server -say first")
	u.url = "http://" + b.ContainerResult(u.web).IPv4 + ":8080"
	b.shell.MustGet(u.url + "/")
	b.shell.MustDo(http.MethodPut, u.url+"/write?path=/data/note", "on the volume")
	u.mark("of the first one")
	return u
}

// mark writes a file that identifies the running container's layer.
func (u *updates) mark(text string) {
	u.Helper()
	u.shell.MustDo(http.MethodPut, u.url+"/write?path=/tmp/own", text)
}

// next pushes another container of the same name.
func (u *updates) next(entrypoint string) *workload.Reservation {
	u.Helper()
	return u.Push(u.Container(u.n, func(c *workload.Container) {
		c.Name, c.Entrypoint = "web", entrypoint
		c.Mounts = []workload.Mount{u.MountByHash(u.volume, "/data")}
	}))
}

// runsOn fails unless the earlier container runs, on its own layer, with its volume and its log.
func (u *updates) runsOn(own, said string) {
	u.Helper()
	if got := u.shell.MustGet(u.url + "/read?path=/tmp/own"); got != own {
		u.Errorf("its own layer holds %q, want %q", got, own)
	}
	if got := u.shell.MustGet(u.url + "/read?path=/data/note"); got != "on the volume" {
		u.Errorf("the volume holds %q", got)
	}
	u.Until(time.Minute, "what it said before is in its log", func() bool {
		for _, l := range u.n.LogLines(u.web) {
			if l.Text == said {
				return true
			}
		}
		return false
	})
	u.Until(time.Minute, "nothing else is left", func() bool { return len(u.n.Status().Containers) == 1 })
	u.only(u.web)
	got, err := u.Client.Get(u.Context(), u.web.ID)
	if err != nil || got.Result == nil || got.Result.State != workload.StateOK {
		u.Errorf("its result is %+v, %v", got.Result, err)
	}
}

// takes waits until a newer container has replaced the earlier one for good.
func (u *updates) takes(r *workload.Reservation) {
	u.Helper()
	if ip := u.ContainerResult(r).IPv4; "http://"+ip+":8080" != u.url {
		u.Errorf("it has the address %s", ip)
	}
	if said := u.Result(u.web, workload.StateDeleted).Error; !strings.Contains(said, "a newer reservation of its name") {
		u.Errorf("the user of the older one hears %q", said)
	}
	u.web = r
	u.shell.MustGet(u.url + "/")
	if got, err := u.Get(u.shell.Path(), u.url+"/read?path=/tmp/own", time.Minute); err == nil {
		u.Errorf("what another one wrote is in its layer: %q", got)
	}
	u.only(r)
}

// lastLines decrypts the last lines in the result of a failed container.
func (u *updates) lastLines(r *workload.Result) string {
	u.Helper()
	var data workload.ContainerFailure
	if err := json.Unmarshal(r.Data, &data); err != nil {
		u.Fatal(err)
	}
	box, err := hex.DecodeString(data.LastLines)
	if err != nil {
		u.Fatal(err)
	}
	text, err := u.User.Open(box)
	if err != nil {
		u.Fatal(err)
	}
	return string(text)
}

func TestAContainerTakesAnothersPlace(t *testing.T) {
	b := newBoxes(t)
	before := b.n.Left()
	u := newUpdates(b)
	loop := b.shell.StartLoop(u.url + "/")
	missing := b.Push(b.Container(b.n, func(c *workload.Container) { c.Name, c.FList = "web", b.Path("images", "nothing") }))
	mentions(t, "the error", b.Result(missing, workload.StateError).Error, "nothing")
	if asked, failed := loop.Stop(); len(failed) > 0 {
		t.Errorf("while the image of its successor was looked for, %d of %d requests failed: %v", len(failed), asked, failed)
	}
	u.runsOn("of the first one", "first")
	for entrypoint, says := range map[string]string{
		"/bin/server -listen nonsense": "ended by itself with exit code",
		"/bin/nothing":                 "/bin/nothing",
	} {
		result := b.Result(u.next(entrypoint), workload.StateError)
		mentions(t, entrypoint, result.Error, says)
		if strings.Contains(entrypoint, "nonsense") {
			mentions(t, "its last lines", u.lastLines(result), "nonsense")
		}
		u.runsOn("of the first one", "first")
	}
	u.takes(u.next("/bin/server -say second"))
	if _, err := b.Get(b.shell.Path(), u.url+"/", 2*time.Second); err != nil {
		t.Errorf("its neighbours don't find it: %v", err)
	}
	u.mark("of the second one")
	if got := b.shell.MustGet(u.url + "/read?path=/data/note"); got != "on the volume" {
		t.Errorf("the volume holds %q", got)
	}
	b.gone(u.web)
	b.gone(u.volume)
	b.nothing(before)
}

// Deleting the newest container of a name deletes all of them, also during the replacement.
func TestAnUpdateIsDeletedMeanwhile(t *testing.T) {
	b := newBoxes(t)
	before := b.n.Left()
	u := newUpdates(b)
	r := u.next("/bin/server -say second")
	b.Until(time.Minute, "the newer one runs", func() bool { _, there := b.n.ContainerStatus(r); return there })
	b.Delete(r)
	b.Result(r, workload.StateDeleted)
	b.Result(u.web, workload.StateDeleted)
	b.gone(u.volume)
	b.nothing(before)
}

// TestAnUpdateIsKilled: croftd and containerd are killed during an update that succeeds, and during one
// that fails. One of the two containers runs in the end.
func TestAnUpdateIsKilled(t *testing.T) {
	b := newBoxes(t)
	u := newUpdates(b)
	own, said := "of the first one", "first"
	for i, pause := range []time.Duration{100, 500, 3000} {
		for _, bad := range []bool{true, false} {
			entrypoint := "/bin/server -say " + string(rune('a'+i))
			if bad {
				entrypoint = "/bin/server -listen nonsense"
			}
			r := u.next(entrypoint)
			b.Until(time.Minute, "it is taken in", func() bool { return b.shown(r).ID != "" })
			time.Sleep(pause * time.Millisecond) // at a random moment of the update
			if i == 1 {
				b.n.KillContainerd()
			} else {
				b.n.Kill()
				b.n.Start()
				b.n.WaitReady()
			}
			if bad {
				b.Result(r, workload.StateError)
				u.runsOn(own, said)
				continue
			}
			u.takes(r)
			own, said = "of "+r.ID, string(rune('a'+i))
			u.mark(own)
			u.runsOn(own, said)
		}
	}
}

// TestAsProcessesAContainerTakesAnothersPlace: the same with modules as separate processes.
func TestAsProcessesAContainerTakesAnothersPlace(t *testing.T) {
	b := newSplitBoxes(t)
	u := newUpdates(b)
	mentions(t, "the error", b.Result(u.next("/bin/server -listen nonsense"), workload.StateError).Error, "exit code")
	u.runsOn("of the first one", "first")
	u.takes(u.next("/bin/server -say second"))
	b.gone(u.web)
}
