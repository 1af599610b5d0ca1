package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

const oneVolume = "  data:\n    volume: {size: 10, type: SSD}\n"

func TestApplyTwiceChangesNothing(t *testing.T) {
	u := newUser(t)
	for i := range 3 {
		p, err := u.apply(u.deployer(), u.file(before))
		if err != nil || p.Changed() != (i == 0) {
			t.Fatalf("run %d: %+v, %v", i, p.Changes, err)
		}
	}
	if n := len(u.fake.shown); n != 3 {
		t.Errorf("%d reservations were made, want 3", n)
	}
}

// TestSecretsAreSealedToTheNode: the node can open the pushed secret, and the
// state holds neither the secret nor a plain digest of it.
func TestSecretsAreSealedToTheNode(t *testing.T) {
	u := newUser(t)
	if _, err := u.apply(u.deployer(), u.file(before)); err != nil {
		t.Fatal(err)
	}
	c, err := workload.DataOf[workload.Container](&u.fake.shown[2].Reservation)
	if err != nil {
		t.Fatal(err)
	}
	got, err := workload.OpenSecret(u.fake.key.Open, u.key.ID(), workload.TypeContainer, "secret_env.TOKEN", c.SecretEnv["TOKEN"])
	if err != nil || string(got) != "secret" {
		t.Errorf("the node reads %q, %v", got, err)
	}
	content, err := os.ReadFile(filepath.Join(u.dir, state.Folder, "p.json"))
	if err != nil || bytes.Contains(content, []byte(`"secret"`)) {
		t.Errorf("the state holds the secret: %v", err)
	}
}

// refuse has the explorer refuse pushed documents.
func (u *user) refuse(call string) error {
	if call == "reserve" {
		return node.Errorf(node.Refused, "no")
	}
	return nil
}

func TestRefusedPushIsForgotten(t *testing.T) {
	u := newUser(t)
	u.fake.fail = u.refuse
	if _, err := u.apply(u.deployer(), u.file(oneVolume)); err == nil || !strings.Contains(err.Error(), `cannot push "data": no`) {
		t.Fatalf("got %v", err)
	}
	if d := u.deployer(); len(d.State.Current) != 0 {
		t.Errorf("the state remembers what the explorer refused: %+v", d.State.Current)
	}
}

// TestPushIsTriedAgain: a failure that may pass is tried again, with the pause
// that the explorer asks for, and the document stays the same.
func TestPushIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t)
		calls := 0
		u.fake.fail = func(call string) error {
			if call != "reserve" {
				return nil
			}
			if calls++; calls < 4 {
				return node.Errorf(node.Transient, "away")
			}
			return nil
		}
		began := time.Now()
		if _, err := u.apply(u.deployer(), u.file(oneVolume)); err != nil {
			t.Fatal(err)
		}
		if calls != 4 || len(u.fake.shown) != 1 {
			t.Errorf("%d calls made %d reservations", calls, len(u.fake.shown))
		}
		if took := time.Since(began); took < time.Second || took > 5*time.Second {
			t.Errorf("three pauses took %s", took)
		}
	})
}

func TestWaitEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t)
		u.fake.quiet = true
		var said bytes.Buffer
		u.out = &said
		d := u.deployer()
		f := u.file(oneVolume)
		p, err := u.plan(d, f)
		if err != nil {
			t.Fatal(err)
		}
		done, err := d.Applier.Apply(t.Context(), f, p, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		var timeout *deploy.TimeoutError
		if err := d.Waiter.Wait(ctx, d.Waiter.Targets(done)); !errors.As(err, &timeout) || !strings.Contains(err.Error(), "has yet to provision data (1-1)") {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited %s, want 1m", took)
		}
		if n := strings.Count(said.String(), "waiting for node"); n != 1 {
			t.Errorf("said %d times what it waits for", n)
		}
	})
}

// TestWaitDuringAnExplorerOutage: it says so, and goes on.
func TestWaitDuringAnExplorerOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t)
		var said bytes.Buffer
		u.out = &said
		d := u.deployer()
		f := u.file(oneVolume)
		p, err := u.plan(d, f)
		if err != nil {
			t.Fatal(err)
		}
		done, err := d.Applier.Apply(t.Context(), f, p, false)
		if err != nil {
			t.Fatal(err)
		}
		back := time.Now().Add(time.Minute)
		u.fake.fail = func(string) error {
			if time.Now().Before(back) {
				return node.Errorf(node.Transient, "nobody there")
			}
			return nil
		}
		if err := d.Waiter.Wait(t.Context(), d.Waiter.Targets(done)); err != nil {
			t.Fatal(err)
		}
		if time.Now().Before(back) || !strings.Contains(said.String(), "data: nobody there; trying again") {
			t.Errorf("said %q", said.String())
		}
	})
}

func TestWaitStopsWhenInterrupted(t *testing.T) {
	u := newUser(t)
	u.fake.quiet = true
	d := u.deployer()
	f := u.file(oneVolume)
	p, err := u.plan(d, f)
	if err != nil {
		t.Fatal(err)
	}
	done, err := d.Applier.Apply(t.Context(), f, p, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Waiter.Wait(ctx, d.Waiter.Targets(done)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestFailedWorkloads: the error names all of them, and the others are waited for.
func TestFailedWorkloads(t *testing.T) {
	u := newUser(t)
	d := u.deployer()
	f := u.file(oneVolume + "  more:\n    volume: {size: 1, type: SSD}\n  good:\n    volume: {size: 2, type: SSD}\n")
	p, err := u.plan(d, f)
	if err != nil {
		t.Fatal(err)
	}
	done, err := d.Applier.Apply(t.Context(), f, p, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range u.fake.shown[:2] {
		if err := u.fake.answer(s, workload.StateError, "no space"); err != nil {
			t.Fatal(err)
		}
	}
	var failed *deploy.FailedError
	if err := d.Waiter.Wait(t.Context(), d.Waiter.Targets(done)); !errors.As(err, &failed) || len(failed.What) != 2 || !strings.Contains(err.Error(), "more (2-1) is error: no space") {
		t.Errorf("got %v", err)
	}
}

// TestDeletionOfALostReservation: an explorer that doesn't know it can't
// make anybody believe that it is gone.
func TestDeletionOfALostReservation(t *testing.T) {
	u := newUser(t)
	if _, err := u.apply(u.deployer(), u.file(oneVolume)); err != nil {
		t.Fatal(err)
	}
	known := u.fake.shown
	u.fake.shown = nil
	d := u.deployer()
	left, err := d.Remover.Leave(t.Context(), []string{"data"})
	if err != nil {
		t.Fatal(err)
	}
	var untrusted *deploy.UntrustedError
	if err := d.Waiter.Wait(t.Context(), d.Waiter.Targets(left)); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "its node may have it until") {
		t.Errorf("got %v", err)
	}
	// The explorer knows it again: the deletion is told.
	u.fake.shown = known
	d = u.deployer()
	if err := d.Remover.Retell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(u.fake.alive()) != 0 {
		t.Errorf("alive: %v", u.fake.alive())
	}
}

// TestDeletionIsRetried: a deletion that was signed and not taken is told again.
func TestDeletionIsRetried(t *testing.T) {
	u := newUser(t)
	if _, err := u.apply(u.deployer(), u.file(oneVolume)); err != nil {
		t.Fatal(err)
	}
	u.fake.fail = func(call string) error {
		if call == "delete" {
			return node.Errorf(node.Invalid, "not now")
		}
		return nil
	}
	if _, err := u.deployer().Remover.Leave(t.Context(), []string{"data"}); err == nil {
		t.Fatal("no error")
	}
	u.fake.fail = func(string) error { return nil }
	d := u.deployer()
	if len(d.State.Leaving) != 1 || d.State.Leaving[0].Told {
		t.Fatalf("leaving: %+v", d.State.Leaving)
	}
	if err := d.Remover.Retell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(u.fake.alive()) != 0 {
		t.Errorf("alive: %v", u.fake.alive())
	}
}

func TestExpiredDocumentsAreNotPushed(t *testing.T) {
	u := newUser(t)
	u.fake.fail = func(call string) error {
		if call == "reserve" {
			return errors.New("cut")
		}
		return nil
	}
	if _, err := u.apply(u.deployer(), u.file(oneVolume)); err == nil {
		t.Fatal("no error")
	}
	u.fake.fail = func(string) error { return nil }
	u.now = func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }
	d := u.deployer()
	if err := d.Applier.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(u.fake.shown) != 0 || len(d.State.Current) != 0 {
		t.Errorf("pushed %d, state %v", len(u.fake.shown), d.State.Current)
	}
}

func TestRenewalByTheFile(t *testing.T) {
	u := newUser(t)
	if _, err := u.apply(u.deployer(), u.file(oneVolume)); err != nil {
		t.Fatal(err)
	}
	longer := u.file("  data:\n    duration: 60d\n    volume: {size: 10, type: SSD}\n")
	p, err := u.apply(u.deployer(), longer)
	if err != nil || p.Changes[0].Action != plan.Renew {
		t.Fatalf("%+v, %v", p.Changes, err)
	}
	if r := u.fake.shown[0]; r.Renewal == nil || !r.Renewal.Expires.Equal(r.Created.Add(60*24*time.Hour)) {
		t.Errorf("renewal: %+v", r.Renewal)
	}
	if p, err := u.apply(u.deployer(), longer); err != nil || p.Changed() {
		t.Errorf("again: %+v, %v", p.Changes, err)
	}
}

func TestUnlockedStateIsNotWritten(t *testing.T) {
	u := newUser(t)
	u.readOnly = true
	d := u.deployer()
	if _, err := u.apply(d, u.file(oneVolume)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(u.dir, state.Folder)); !os.IsNotExist(err) {
		t.Errorf("there is a state: %v", err)
	}
}

// TestControlCharactersFromANode: its error is one plain line.
func TestControlCharactersFromANode(t *testing.T) {
	u := newUser(t)
	var said bytes.Buffer
	u.out = &said
	d := u.deployer()
	f := u.file(oneVolume)
	p, err := u.plan(d, f)
	if err != nil {
		t.Fatal(err)
	}
	done, err := d.Applier.Apply(t.Context(), f, p, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.fake.answer(u.fake.shown[0], workload.StateError, "bad\x1b[2J\nnews\u202e"); err != nil {
		t.Fatal(err)
	}
	if err := d.Waiter.Wait(t.Context(), d.Waiter.Targets(done)); err == nil {
		t.Fatal("no error")
	}
	if out := said.String(); !strings.Contains(out, "data: 1-1 is error: bad [2J news") || strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("said %q", out)
	}
}
