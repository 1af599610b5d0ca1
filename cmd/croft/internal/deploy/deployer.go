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

// Explorer is what this package needs of an explorer.
type Explorer interface {
	Get(ctx context.Context, id string) (explorer.Reservation, error)
	ListAll(ctx context.Context, user string) ([]explorer.Reservation, error)
	Reserve(ctx context.Context, r *workload.Reservation) (string, error)
	Delete(ctx context.Context, id string, d workload.Deletion) error
	Renew(ctx context.Context, id string, n workload.Renewal) error
	Node(ctx context.Context, id string) (explorer.Node, error)
}

// Config is what a Deployer is made of.
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

// Deployer works on one project, or on single reservations.
type Deployer struct {
	Config
	// nodes are as the explorer showed them when they were asked for.
	nodes map[string]explorer.Node
	asked map[string]time.Time
}

// New makes a Deployer.
func New(c Config) *Deployer {
	return &Deployer{Config: c, nodes: map[string]explorer.Node{}, asked: map[string]time.Time{}}
}

// DigestKey is the key of the plain workloads' digests: the user's own, so
// that the state tells nobody else anything about a secret.
func DigestKey(key sign.KeyPair) []byte {
	sum := sha256.Sum256(append([]byte("croft-project-digest\x00"), key.Seed()...))
	return sum[:]
}

func (d *Deployer) say(format string, args ...any) {
	// Progress that can't be shown stops nothing. A node's words may be in it.
	_, _ = fmt.Fprintln(d.Progress, render.Line(fmt.Sprintf(format, args...)))
}

func (d *Deployer) save() error {
	if d.State == nil || !d.Save {
		return nil
	}
	return d.State.Save()
}
