package image

import (
	"context"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

// Run looks at the source, fetches its versions, and removes old ones, until ctx is done.
func (m *Images) Run(ctx context.Context) error {
	said, failures := "", 0
	for {
		err := m.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause := backoff.Around(m.cfg.Times.Look)
		if err == nil {
			failures = 0
		} else {
			failures++
			pause = m.pauseAfter(err, failures)
		}
		m.settle(err, pause)
		if cause := causeOf(err); cause != said {
			said = cause
			if err != nil {
				m.cfg.Log.Warn().Str("step", "vm image").Str("reference", m.cfg.Source.String()).Err(err).Msg("cannot get the image of Kubernetes VMs: it is tried again; VMs boot what is here")
			} else {
				m.cfg.Log.Info().Str("step", "vm image").Str("reference", m.cfg.Source.String()).Msg("the image of Kubernetes VMs can be had again")
			}
		}
		timer := m.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-m.wake:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// causeOf is an error's text without its figures, which change from try to try; empty without an error.
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// unresolved is an error of asking where the source leads, before anything was fetched.
type unresolved struct{ error }

// Unwrap returns the cause.
func (u unresolved) Unwrap() error { return u.error }

// pauseAfter is how long the next try waits. One that can cost a whole download without any use is rare.
func (m *Images) pauseAfter(err error, failures int) time.Duration {
	var cheap unresolved
	if node.KindOf(err) == node.Transient || errors.As(err, &cheap) {
		return m.cfg.Times.Retry.Delay(failures)
	}
	return m.cfg.Times.Mistake.Delay(failures)
}

// settle records a round's end.
func (m *Images) settle(err error, pause time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.fetching, s.done, s.total, s.next = false, 0, 0, m.cfg.Clock.Now().Add(pause)
	if m.folder != nil && err == nil {
		return // its failure is of the last reading
	}
	s.failure = ""
	if err != nil {
		s.failure = err.Error()
	}
}

// round looks at the source once.
func (m *Images) round(ctx context.Context) error {
	if !m.cfg.Source.fetched() {
		return firstOf(m.shelf.dropRemains(), m.sweep())
	}
	if err := firstOf(m.shelf.prepare(), m.repair()); err != nil {
		return err
	}
	err := m.look(ctx)
	switch {
	case err == nil:
		return firstOf(m.shelf.dropFetched(""), m.sweep())
	case node.KindOf(err) == node.NoSpace:
		// The disk is others', too; and what nobody wants any more may make room for the next try.
		return firstOf(err, m.shelf.dropFetched(""), m.sweep())
	}
	return err
}

// firstOf is the first of some errors.
func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// repair removes a damaged version.
func (m *Images) repair() error {
	m.mu.Lock()
	bad := m.state.damaged
	m.mu.Unlock()
	if bad == "" {
		return nil
	}
	if m.shelf.has(bad) {
		if err := m.shelf.remove(bad); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.damaged = ""
	return nil
}

// look asks which version the source leads to, and fetches what isn't here. A pinned one that is here is never asked for.
func (m *Images) look(ctx context.Context) error {
	pinned := m.cfg.Source.pinned()
	if pinned != "" && m.shelf.has(pinned) {
		return m.use(pinned)
	}
	found, err := m.origin.look(ctx)
	if err != nil {
		return err
	}
	defer found.close()
	d := found.digest()
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 || pinned != "" && d != pinned {
		return unusable("its server answers with another digest: %.100q", d)
	}
	if !m.shelf.has(d) {
		if err := m.fetch(ctx, found); err != nil {
			return err
		}
	}
	return m.use(d)
}

// fetch makes a version whole on the node.
func (m *Images) fetch(ctx context.Context, from offer) error {
	m.progress(0)
	manifest, files, err := from.contents(ctx)
	if err != nil {
		return err
	}
	total, err := boundFiles(files)
	if err != nil {
		return err
	}
	version := from.digest()
	if err := m.shelf.begin(version); err != nil {
		return err
	}
	d := &download{shelf: m.shelf, clock: m.cfg.Clock, folder: m.shelf.fetching(version), progress: m.progress}
	if err := m.shelf.room(total - d.have(files)); err != nil {
		return err
	}
	m.expect(total)
	for _, f := range files {
		if err := d.fetch(ctx, f); err != nil {
			return err
		}
	}
	return m.shelf.finish(version, manifest)
}

// progress counts bytes that have come.
func (m *Images) progress(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.fetching = true
	m.state.done += bytes
}

// expect is told how many bytes are to come.
func (m *Images) expect(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.total = total
}

// use makes a whole version the one that VMs boot.
func (m *Images) use(d digest.Digest) error {
	if m.cfg.Source.pinned() == "" {
		if err := m.shelf.point(pointer{Reference: m.cfg.Source.String(), Digest: d}); err != nil {
			return err
		}
	}
	m.mu.Lock()
	same := m.state.using != nil && m.state.using.digest == d
	m.mu.Unlock()
	if same {
		return nil
	}
	v, err := m.open(d)
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.state.damaged = d
		return node.WithKind(node.Transient, err)
	}
	m.mu.Lock()
	m.state.using = v
	m.mu.Unlock()
	m.cfg.Log.Info().Str("step", "vm image").Str("reference", m.cfg.Source.String()).Str("version", v.name).Str("digest", d.String()).Msg("the image of Kubernetes VMs is ready")
	return nil
}

// sweep removes versions that aren't the present one, that no VM has, and that weren't returned for a while. Nothing goes
// before the present one is whole.
func (m *Images) sweep() error {
	if m.folder != nil {
		if _, err := m.folder.Describe(); err != nil {
			return nil //nolint:nilerr // Status shows it
		}
	}
	versions, err := m.shelf.versions()
	if err != nil || len(versions) == 0 {
		return err
	}
	paths, known := m.cfg.InUse()
	if !known {
		return nil
	}
	for _, d := range versions {
		if m.leased(d) || hasAny(m.shelf.folder(d), paths) {
			continue
		}
		if err := m.shelf.remove(d); err != nil {
			return err
		}
		m.cfg.Log.Info().Str("step", "vm image").Str("digest", d.String()).Msg("an old image of Kubernetes VMs is removed")
	}
	return nil
}

// leased reports whether a version is the present one, or may be about to be booted.
func (m *Images) leased(d digest.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.using != nil && m.state.using.digest == d || m.cfg.Clock.Boot() < m.state.leases[d] {
		return true
	}
	delete(m.state.leases, d)
	return false
}

// hasAny reports whether any of the paths lies in a folder.
func hasAny(folder string, paths []string) bool {
	for _, p := range paths {
		if strings.HasPrefix(p, folder+"/") {
			return true
		}
	}
	return false
}
