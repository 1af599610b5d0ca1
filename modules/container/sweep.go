package container

import (
	"context"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
)

// sweep removes what earlier processes have left: what containers stood on that
// containerd doesn't know, execs, and namespaces with nothing in them.
func (m *Module) sweep(ctx context.Context) {
	standing, err := m.roots.List()
	if err != nil {
		m.cfg.Log.Warn().Err(err).Str("type", "container").Msg("what containers stand on can't be listed")
		return
	}
	secrets, err := m.secrets.List()
	if err != nil {
		m.cfg.Log.Warn().Err(err).Str("type", "container").Msg("the secrets of containers can't be listed")
	}
	for _, id := range slices.Concat(standing, secrets) {
		m.sweepOne(ctx, id)
	}
	seen, err := m.look(ctx)
	if err != nil {
		return
	}
	for id, s := range seen {
		if s.runs() {
			m.sweepExecs(ctx, s.user, id)
		}
	}
	m.sweepExecFolders()
}

// sweepUsers removes the namespaces of users who have nothing in them.
func (m *Module) sweepUsers(ctx context.Context, seen map[string]sight) {
	users, err := m.daemon.Users(ctx)
	if err != nil {
		return
	}
	busy := map[string]bool{}
	for _, s := range seen {
		busy[s.user] = true
	}
	for _, user := range users {
		if !busy[user] {
			m.sweepUser(ctx, user)
		}
	}
}

// giveBack takes the ranges of IDs from users who have nothing left: their last
// layers have gone since the last look.
func (m *Module) giveBack(ctx context.Context) {
	given, err := m.roots.GiveBack(ctx)
	switch {
	case err != nil:
		m.cfg.Log.Warn().Err(err).Str("type", "container").Msg("ranges of IDs that nobody needs can't be given back")
	case given > 0:
		m.cfg.Log.Debug().Int("users", given).Str("type", "container").Msg("ranges of IDs were given back")
	}
}

func (m *Module) sweepOne(ctx context.Context, id string) {
	it, err := m.hold(ctx, id)
	if err != nil {
		return
	}
	defer m.release(it)
	if _, err := m.cfg.owner(ctx, m.daemon, id); node.KindOf(err) != node.NotExist {
		return
	}
	r, known := m.recordOf(id)
	if known && r.Wanted {
		return // it was taken out of containerd behind our back: it is made again
	}
	if err := m.clear(ctx, it, r.User); err != nil {
		m.cfg.Log.Warn().Err(err).Str("id", id).Str("type", "container").Msg("what a container stood on can't be removed")
	}
}
