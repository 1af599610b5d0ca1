package daemon

import (
	"context"
	stderrors "errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
)

// settings are the settings in force in this process.
type settings struct {
	// read reads the settings anew, from where they came from.
	read func() (*config.Loaded, []error)
	log  zerolog.Logger
	// modules are those of this process; nil when it has none.
	modules *module.Supervisor

	// switchedOff are the modules that are switched off: who reads them never waits for a reload.
	switchedOff atomic.Pointer[[]string]

	mu    sync.Mutex
	force *config.Loaded
	// needsRestart are settings that were read since and take effect when croftd is started again.
	needsRestart []string
	// hooks read their folder anew, event makes an event, and changed shows the settings; each is nil in a process without the engine.
	hooks   func(folder string) error
	event   func(work.EventSpec)
	changed func()
}

func newSettings(c Config) *settings {
	s := &settings{read: c.Reload, log: c.Log, force: c.Loaded}
	s.switchedOff.Store(&c.ModulesOff)
	return s
}

// off are the names of the modules that are switched off.
func (s *settings) off() []string { return *s.switchedOff.Load() }

// engine has what the engine's process does with settings.
func (s *settings) engine(hooks func(folder string) error, event func(work.EventSpec), changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks, s.event, s.changed = hooks, event, changed
}

// inForce are the settings in force, and the names of those that need a restart of croftd.
func (s *settings) inForce() (*config.Loaded, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.force, slices.Clone(s.needsRestart)
}

// reload reads the settings anew. Wrong ones change nothing. The modules of this process that read a changed setting are opened anew; the others aren't
// touched. It says what it did.
func (s *settings) reload() (done string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, err = s.apply()
	if err != nil {
		s.log.Error().Err(err).Msg("the settings stay as they are")
		s.tell(work.ReasonSettingsRefused, err.Error())
		return "", err
	}
	s.log.Info().Msg(done)
	if s.changed != nil {
		s.changed()
	}
	return done, nil
}

func (s *settings) apply() (string, error) {
	next, faults := s.read()
	if len(faults) > 0 {
		return "", node.WithKind(node.Invalid, stderrors.Join(faults...))
	}
	changes := config.Diff(s.force, next)
	merged, err := s.force.Adopt(next)
	if err != nil {
		return "", node.WithKind(node.Invalid, err)
	}
	if s.hooks != nil {
		if err := s.hooks(merged.HooksDir); err != nil {
			return "", err
		}
	}
	s.force, s.needsRestart = merged, changes.NeedsRestart
	s.switchedOff.Store(&merged.Config.ModulesOff)
	var restarted []string
	for _, name := range changes.Restart {
		if s.modules == nil {
			break
		}
		if _, here := s.modules.State(name); !here {
			continue // it is another process's, which is told by itself
		}
		if err := s.modules.Restart(name, merged.Config); err != nil {
			return "", err
		}
		restarted = append(restarted, name)
	}
	done := []string{"the settings are the same"}
	if !changes.Same {
		var names []string
		for _, c := range changes.Settings {
			names = append(names, c.Name)
		}
		done = []string{"changed: " + strings.Join(names, ", ")}
		s.tell(work.ReasonSettingsChanged, done[0])
	}
	for _, part := range []struct {
		what  string
		names []string
	}{{"modules restarted: ", restarted}, {"needs a restart of croftd: ", changes.NeedsRestart}} {
		if len(part.names) > 0 {
			done = append(done, part.what+strings.Join(part.names, ", "))
		}
	}
	return strings.Join(done, "; "), nil
}

// tell makes an event.
func (s *settings) tell(name, message string) {
	if s.event == nil {
		return
	}
	reason, _ := work.ReasonOf(name)
	s.event(work.EventSpec{Kind: reason.Kind, Reason: reason.Name, Object: "node", Message: message, Last: time.Now().UTC()})
}

// part runs the settings.
func (s *settings) part(hangups <-chan os.Signal) supervise.Part {
	return supervise.Part{Name: "reload", Again: true, Run: func(ctx context.Context) error { return s.run(ctx, hangups) }}
}

// run reloads the settings at each hangup, until ctx is done.
func (s *settings) run(ctx context.Context, hangups <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			_, _ = s.reload() // it logs what it does
		}
	}
}
