package deploy_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// fakeExplorer is an explorer and a node in one: a pushed reservation is deployed,
// a deleted one is gone.
type fakeExplorer struct {
	key      sign.KeyPair
	shown    []*explorer.Reservation
	sequence int64
	// before and after are called around each call that changes something.
	before, after func(call string)
	// fail, when not nil, may fail a call.
	fail func(call string) error
	// last is the data of errors, nil for none.
	last json.RawMessage
	// quiet says that the node answers nothing.
	quiet bool
}

func newFake(t *testing.T) *fakeExplorer {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return &fakeExplorer{key: key, before: func(string) {}, after: func(string) {}, fail: func(string) error { return nil }}
}

func (f *fakeExplorer) find(id string) (*explorer.Reservation, error) {
	for _, s := range f.shown {
		if s.ID == id {
			return s, nil
		}
	}
	return nil, node.Errorf(node.NotExist, "there is no reservation %s", id)
}

func (f *fakeExplorer) Get(_ context.Context, id string) (explorer.Reservation, error) {
	if err := f.fail("get"); err != nil {
		return explorer.Reservation{}, err
	}
	s, err := f.find(id)
	if err != nil {
		return explorer.Reservation{}, err
	}
	return *s, nil
}

func (f *fakeExplorer) ListAll(_ context.Context, user string) ([]explorer.Reservation, error) {
	var out []explorer.Reservation
	for _, s := range f.shown {
		if s.User == user {
			out = append(out, *s)
		}
	}
	return out, f.fail("list")
}

func (f *fakeExplorer) change(call string, do func() error) error {
	f.before(call)
	if err := f.fail(call); err != nil {
		return err
	}
	err := do()
	f.after(call)
	return err
}

func (f *fakeExplorer) Reserve(_ context.Context, r *workload.Reservation) (id string, err error) {
	return id, f.change("reserve", func() error {
		if err := workload.Verify(r); err != nil {
			return node.WithKind(node.Refused, err)
		}
		hash, err := r.Hash()
		if err != nil {
			return err
		}
		for _, s := range f.shown {
			if other, err := s.Hash(); err == nil && other == hash {
				id = s.ID
				return nil
			}
		}
		id = fmt.Sprintf("%d-1", len(f.shown)+1)
		shown := &explorer.Reservation{Reservation: *r}
		shown.ID = id
		f.shown = append(f.shown, shown)
		return f.provision(shown)
	})
}

func (f *fakeExplorer) Delete(_ context.Context, id string, d workload.Deletion) error {
	return f.change("delete", func() error {
		s, err := f.find(id)
		if err != nil {
			return err
		}
		s.Deletion = &d
		if err := workload.VerifyDeletion(&s.Reservation); err != nil {
			return node.WithKind(node.Refused, err)
		}
		return f.answer(s, workload.StateDeleted, "")
	})
}

func (f *fakeExplorer) Renew(_ context.Context, id string, n workload.Renewal) error {
	return f.change("renew", func() error {
		s, err := f.find(id)
		if err != nil {
			return err
		}
		s.Renewal = &n
		return workload.VerifyRenewal(&s.Reservation)
	})
}

func (f *fakeExplorer) Node(_ context.Context, id string) (explorer.Node, error) {
	return explorer.Node{NodeID: id, Online: true}, nil
}

// provision is the node's part: a container takes the place of the one of its
// name, unless its image is called bad.
func (f *fakeExplorer) provision(s *explorer.Reservation) error {
	c, err := workload.DataOf[workload.Container](&s.Reservation)
	if err != nil || c.Name == "" {
		return f.answer(s, workload.StateOK, "")
	}
	if c.FList == "bad" {
		box, err := sign.Seal(s.User, []byte("s3cret\nout of paper\n"))
		if err != nil {
			return err
		}
		f.last = json.RawMessage(`{"last_lines":"` + hex.EncodeToString(box) + `"}`)
		return f.answer(s, workload.StateError, "it ended by itself")
	}
	for _, other := range f.shown {
		o, err := workload.DataOf[workload.Container](&other.Reservation)
		if err == nil && other != s && o.Name == c.Name && other.Result != nil && other.Result.State == workload.StateOK {
			if err := f.answer(other, workload.StateDeleted, "a newer reservation of its name has taken its place"); err != nil {
				return err
			}
		}
	}
	return f.answer(s, workload.StateOK, "")
}

// answer is the node's.
func (f *fakeExplorer) answer(s *explorer.Reservation, st workload.State, text string) error {
	if f.quiet {
		return nil
	}
	hash, err := s.Hash()
	if err != nil {
		return err
	}
	f.sequence++
	r := &workload.Result{Type: s.Type, ID: s.ID, Created: time.Now(), State: st, Error: text, Data: json.RawMessage("null"),
		Hash: hash[:], Birth: "b", Sequence: f.sequence, NodeID: f.key.ID()}
	if st == workload.StateError && f.last != nil {
		r.Data = f.last
	}
	message, err := r.SigningBytes()
	if err != nil {
		return err
	}
	r.Signature = f.key.Sign(message)
	s.Result = r
	return nil
}

// alive are the reservations whose deletion wasn't pushed, as type and data.
func (f *fakeExplorer) alive() []string {
	var out []string
	for _, s := range f.shown {
		if s.Deletion == nil {
			out = append(out, string(s.Type)+" "+string(s.Data))
		}
	}
	return out
}

// user works on a project file in a folder of its own; each run is a process of its own.
type user struct {
	t    *testing.T
	key  sign.KeyPair
	dir  string
	fake *fakeExplorer
	out  io.Writer
	now  func() time.Time
	// readOnly has the state never written.
	readOnly bool
}

func newUser(t *testing.T) *user {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return &user{t: t, key: key, dir: t.TempDir(), fake: newFake(t), out: io.Discard, now: time.Now}
}

// deployer reads the state as it is on the disk.
func (u *user) deployer() *deploy.Deployer {
	u.t.Helper()
	path := state.Path(filepath.Join(u.dir, "croft.yaml"), "p")
	s, err := state.Read(path, "p", u.key.ID())
	if err != nil {
		u.t.Fatal(err)
	}
	return deploy.New(deploy.Config{Explorer: u.fake, Key: u.key, State: s, Save: !u.readOnly, Now: u.now, Progress: u.out,
		Source: project.Source{Dir: u.dir, Getenv: func(string) (string, bool) { return "secret", true }}})
}

func (u *user) file(workloads string) *project.File {
	u.t.Helper()
	f, err := project.Parse("croft.yaml", []byte("project: p\nnode: "+u.fake.key.ID()+"\nduration: 30d\nworkloads:\n"+workloads))
	if err != nil {
		u.t.Fatal(err)
	}
	return f
}

// apply does what the command does.
func (u *user) apply(d *deploy.Deployer, f *project.File) (plan.Plan, error) {
	ctx := u.t.Context()
	if err := d.Applier.Recover(ctx); err != nil {
		return plan.Plan{}, err
	}
	if err := d.Remover.Retell(ctx); err != nil {
		return plan.Plan{}, err
	}
	p, err := u.plan(d, f)
	if err != nil {
		return p, err
	}
	done, err := d.Applier.Apply(ctx, f, p, true)
	if err != nil {
		return p, err
	}
	return p, d.Waiter.Wait(ctx, d.Waiter.Targets(done))
}

func (u *user) plan(d *deploy.Deployer, f *project.File) (plan.Plan, error) {
	wanted, err := d.Planner.Wanted(f)
	if err != nil {
		return plan.Plan{}, err
	}
	seen, err := d.Observer.All(u.t.Context(), d.State.All())
	if err != nil {
		return plan.Plan{}, err
	}
	if err := d.Planner.Tidy(seen); err != nil {
		return plan.Plan{}, err
	}
	known, err := d.Planner.Known(seen)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Make(plan.Input{Now: u.now(), Wanted: wanted, Known: known}), nil
}

// text joins lines.
func text(s []string) string { return strings.Join(s, "\n") }
