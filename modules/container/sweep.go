package container

import (
	"context"
	"slices"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/modules/container/leftovers"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

// sweeper removes remains of earlier processes of the module, and a user's remains after the user's
// last container and layer.
type sweeper struct {
	index     tasks.Index
	table     *managed.Table
	roots     rootLister
	secrets   *secret.Store
	leftovers leftovers.Cleaner
	remover   remover
	execs     execs.Runner
	log       zerolog.Logger
}

// rootLister lists root file systems, and takes ranges of IDs back from users who need none.
type rootLister interface {
	List() ([]string, error)
	GiveBack(ctx context.Context) (users int, err error)
}

// Sweep implements supervise.Sweeper: it removes root file systems and secrets of containers that containerd
// doesn't know, and execs whose processes have died.
func (s sweeper) Sweep(ctx context.Context) {
	mounted, err := s.roots.List()
	if err != nil {
		s.log.Warn().Str("type", "container").Str("step", "sweep").Err(err).Msg("cannot list the root file systems of containers")
		return
	}
	secrets, err := s.secrets.List()
	if err != nil {
		s.log.Warn().Str("type", "container").Str("step", "sweep").Err(err).Msg("cannot list the secrets of containers")
	}
	for _, id := range slices.Concat(mounted, secrets) {
		s.sweepOne(ctx, id)
	}
	all, err := s.index.All(ctx)
	if err != nil {
		return
	}
	for id, state := range all {
		if !state.Runs() {
			continue
		}
		if in, found, err := tasks.Load(ctx, s.index.Daemon, state.User, id); err == nil {
			s.execs.Sweep(in, found)
		}
	}
	s.execs.SweepFolders()
}

func (s sweeper) sweepOne(ctx context.Context, id string) {
	held, err := s.table.Hold(ctx, id)
	if err != nil {
		return
	}
	defer s.table.Release(held)
	if _, err := s.index.User(ctx, id); node.KindOf(err) != node.NotExist {
		return
	}
	r, known := s.table.Record(id)
	if known && r.Wanted {
		return // containerd has lost it: the engine makes it again
	}
	if err := s.remover.clear(ctx, held, r.User); err != nil {
		s.log.Warn().Str("id", id).Str("type", "container").Str("step", "sweep").Err(err).Msg("cannot remove the root file system and secrets of a removed container")
	}
}

// AfterLook implements supervise.Sweeper: it removes the namespaces of users who have no containers, and
// takes the ranges of IDs from users whose last layer is gone.
func (s sweeper) AfterLook(ctx context.Context, all map[string]tasks.RuntimeState) {
	s.leftovers.ClearNamespaces(ctx, all)
	given, err := s.roots.GiveBack(ctx)
	switch {
	case err != nil:
		s.log.Warn().Str("type", "container").Str("step", "sweep").Err(err).Msg("cannot give back unused ranges of IDs")
	case given > 0:
		s.log.Debug().Str("type", "container").Str("step", "sweep").Int("users", given).Msg("unused ranges of IDs were given back")
	}
}
