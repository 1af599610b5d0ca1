package deploy_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/pkg/workload"
)

// web is a project of one container, of that image.
func web(image string) string {
	return "  web:\n    container: {flist: " + image + ", capacity: {cpu: 1, memory: 64}, network: {network_id: n, ips: [10.0.0.2]}}\n"
}

// standing are the IDs that the node says run.
func (f *fakeExplorer) standing() (out []string) {
	for _, s := range f.shown {
		if s.Result != nil && s.Result.State == workload.StateOK {
			out = append(out, s.ID+" "+f.image(s.ID))
		}
	}
	return out
}

func (f *fakeExplorer) image(id string) string {
	s, err := f.find(id)
	if err != nil {
		return ""
	}
	c, err := workload.DataOf[workload.Container](&s.Reservation)
	if err != nil {
		return ""
	}
	return c.FList
}

func TestContainerUpdate(t *testing.T) {
	u := newUser(t)
	for i, image := range []string{"one", "two", "three", "three"} {
		p, err := u.apply(u.deployer(), u.file(web(image)))
		want := []plan.Action{plan.Create, plan.Update, plan.Update, plan.None}[i]
		if err != nil || p.Changes[0].Action != want || p.Changes[0].LosesData {
			t.Fatalf("%s: %+v, %v, want %s", image, p.Changes, err, want)
		}
	}
	if got := u.fake.standing(); !slices.Equal(got, []string{"3-1 three"}) || len(u.fake.alive()) != 3 {
		t.Errorf("%v stand, not deleted are %v", got, u.fake.alive())
	}
	if e := u.deployer().State.Current["web"]; e.ID != "3-1" || len(e.Before) != 0 {
		t.Errorf("the state has %+v", e)
	}
	other := newUser(t)
	if _, err := other.apply(other.deployer(), other.file(web("one"))); err != nil {
		t.Fatal(err)
	}
	name := func(u *user) string {
		c, err := workload.DataOf[workload.Container](&u.fake.shown[0].Reservation)
		if err != nil {
			t.Fatal(err)
		}
		return c.Name
	}
	if a, b := name(u), name(other); a == b || !strings.HasPrefix(a, "web-") {
		t.Errorf("containers of two projects are called %q and %q", a, b)
	}
}

// One that the node gives up leaves the old one: apply says so, the next one tries
// again, and when the file is put back goes back.
func TestFailedUpdate(t *testing.T) {
	for _, next := range []string{"bad", "good", "one"} {
		u := newUser(t)
		if _, err := u.apply(u.deployer(), u.file(web("one"))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var failed *deploy.FailedError
			var said bytes.Buffer
			u.out = &said
			_, err := u.apply(u.deployer(), u.file(web("bad")))
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), "didn't take the place of 1-1, which runs on: it ended by itself") {
				t.Fatalf("apply says %v", err)
			}
			if !strings.Contains(said.String(), "\n  s3cret\n  out of paper\n") {
				t.Errorf("apply shows %q", said.String())
			}
			if got := u.fake.standing(); !slices.Equal(got, []string{"1-1 one"}) {
				t.Fatalf("%v stand", got)
			}
		}
		p, err := u.apply(u.deployer(), u.file(web(next)))
		if p.Changes[0].Action != plan.Update {
			t.Errorf("%s: %+v", next, p.Changes)
		}
		want := []string{"4-1 " + next}
		if next == "bad" {
			want = []string{"1-1 one"}
		} else if err != nil {
			t.Errorf("%s: %v", next, err)
		}
		if got := u.fake.standing(); !slices.Equal(got, want) {
			t.Errorf("%s: %v stand, want %v", next, got, want)
		}
		d := u.deployer()
		if _, err := u.plan(d, u.file(web(next))); err != nil {
			t.Fatal(err)
		}
		if e := d.State.Current["web"]; next != "bad" && len(e.Before) != 0 {
			t.Errorf("%s: the state has %+v", next, e.Before)
		}
		if _, err := d.Remover.Leave(t.Context(), []string{"web"}); err != nil {
			t.Fatal(err)
		}
		if got := u.fake.standing(); len(got) != 0 || len(d.State.Current) != 0 {
			t.Errorf("%s: after its deletion %v stand", next, got)
		}
	}
}

// Stopped before and after every call of an update and applied again: one stands.
func TestUpdateCrashPoints(t *testing.T) {
	for _, then := range []string{"two", "one", "three"} {
		for stopAt := 1; ; stopAt++ {
			u := newUser(t)
			if _, err := u.apply(u.deployer(), u.file(web("one"))); err != nil {
				t.Fatal(err)
			}
			crashed := u.stopped(stopAt, func() {
				if _, err := u.apply(u.deployer(), u.file(web("two"))); err != nil {
					t.Fatal(err)
				}
			})
			if !crashed {
				break
			}
			for range 2 {
				if _, err := u.apply(u.deployer(), u.file(web(then))); err != nil {
					t.Fatal(err)
				}
			}
			if got := u.fake.standing(); len(got) != 1 || !strings.HasSuffix(got[0], " "+then) {
				t.Errorf("stopped at %d, then %s: %v stand", stopAt, then, got)
			}
			if p, err := u.plan(u.deployer(), u.file(web(then))); err != nil || p.Changed() {
				t.Errorf("stopped at %d, then %s: %+v, %v", stopAt, then, p.Changes, err)
			}
		}
	}
}

// When the time of one that failed is over, the one that runs stands for the name.
func TestFailedUpdateExpires(t *testing.T) {
	u := newUser(t)
	if _, err := u.apply(u.deployer(), u.file(web("one"))); err != nil {
		t.Fatal(err)
	}
	brief := "  web:\n    duration: 1d\n" + strings.TrimPrefix(web("bad"), "  web:\n")
	if _, err := u.apply(u.deployer(), u.file(brief)); err == nil {
		t.Fatal("it didn't fail")
	}
	u.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	d := u.deployer()
	p, err := u.plan(d, u.file(web("one")))
	if err != nil || p.Changes[0].Action != plan.None || d.State.Current["web"].ID != "1-1" {
		t.Errorf("%+v, %v", p.Changes, err)
	}
}

// An update that the explorer refuses leaves the state as it was.
func TestRefusedUpdateIsForgotten(t *testing.T) {
	u := newUser(t)
	if _, err := u.apply(u.deployer(), u.file(web("one"))); err != nil {
		t.Fatal(err)
	}
	u.fake.fail = u.refuse
	if _, err := u.apply(u.deployer(), u.file(web("two"))); err == nil {
		t.Fatal("it wasn't refused")
	}
	if e := u.deployer().State.Current["web"]; e == nil || e.ID != "1-1" || len(e.Before) != 0 {
		t.Errorf("the state has %+v", e)
	}
}
