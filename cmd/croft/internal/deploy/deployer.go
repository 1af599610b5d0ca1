package deploy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// Explorer has the calls to an explorer that this package needs.
type Explorer interface {
	Shows
	Reserve(ctx context.Context, r *workload.Reservation) (string, error)
	Delete(ctx context.Context, id string, d workload.Deletion) error
	Renew(ctx context.Context, id string, n workload.Renewal) error
	Node(ctx context.Context, id string) (explorer.Node, error)
}

// Config configures a Deployer.
type Config struct {
	Explorer Explorer
	Key      sign.KeyPair
	// State is nil where there is no project.
	State *state.File
	// Save says whether changes of the state are written; false without its lock.
	Save bool
	// Source opens the secrets of the project file.
	Source project.Source
	Now    func() time.Time
	// Progress gets a line for each step.
	Progress io.Writer
}

// Deployer has the parts that work on one project, or on single reservations.
type Deployer struct {
	// User is the ID of the key.
	User     string
	State    *state.File
	Observer *Observer
	Planner  *Planner
	Applier  *Applier
	Remover  *Remover
	Renewer  *Renewer
	Importer *Importer
	Waiter   *Waiter
}

// New makes a Deployer.
func New(c Config) *Deployer {
	log := progress{c.Progress}
	book := &ledger{File: c.State, writable: c.Save}
	nodes := newPresence(c.Explorer, c.Now)
	seer := &Observer{Explorer: c.Explorer, User: c.Key.ID()}
	author := &composer{key: c.Key, source: c.Source, now: c.Now, ledger: book, explorer: c.Explorer}
	renewer := &Renewer{explorer: c.Explorer, key: c.Key, ledger: book, log: log}
	remover := &Remover{explorer: c.Explorer, key: c.Key, now: c.Now, observer: seer, ledger: book, log: log}
	out := &pusher{explorer: c.Explorer, now: c.Now, ledger: book, nodes: nodes, log: log}
	return &Deployer{
		User: c.Key.ID(), State: c.State, Observer: seer, Remover: remover, Renewer: renewer,
		Planner:  &Planner{composer: author, observer: seer, ledger: book, now: c.Now},
		Applier:  &Applier{composer: author, pusher: out, remover: remover, renewer: renewer, ledger: book},
		Importer: &Importer{composer: author, observer: seer, ledger: book, now: c.Now},
		Waiter:   &Waiter{observer: seer, nodes: nodes, key: c.Key, ledger: book, log: log},
	}
}

// DigestKey is the key of the plain workloads' digests: the user's own, so
// that the state tells nobody else anything about a secret.
func DigestKey(key sign.KeyPair) []byte {
	sum := sha256.Sum256(append([]byte("croft-project-digest\x00"), key.Seed()...))
	return sum[:]
}

// progress shows the user a line for each step.
type progress struct{ to io.Writer }

// say writes a line. Progress that can't be shown stops nothing. A node's text may be in
// it, so control characters are taken out.
func (p progress) say(format string, args ...any) {
	_, _ = fmt.Fprintln(p.to, render.Line(fmt.Sprintf(format, args...)))
}
