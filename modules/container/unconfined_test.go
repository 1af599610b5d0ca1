package container

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

// A kernel's AppArmor that isn't used is warned of once, any other kernel's isn't.
func TestAppArmorThatIsNotUsedIsWarnedOf(t *testing.T) {
	for lack, lines := range map[string]int{"no apparmor_parser": 1, "": 0} {
		var log bytes.Buffer
		warnUnconfined(zerolog.New(&log), spec.Host{NoAppArmor: lack})
		if strings.Count(log.String(), "\n") != lines || !strings.Contains(log.String(), lack) {
			t.Errorf("with %q the log has %s", lack, &log)
		}
	}
}

// A container isn't started without the profile that it should have: the start fails, and is worth another try.
func TestAProfileThatCannotBeLoadedAgain(t *testing.T) {
	w := newWorld(t)
	var loads atomic.Int64
	profile := w.module.service.status.runtime.profile
	profile.Profile, profile.Sys = spec.ProfileName, t.TempDir()
	profile.Load = func() error {
		loads.Add(1)
		return errors.New("apparmor_parser refuses it")
	}
	s := w.spec("1-1", "serve")
	_, err := w.Create(s)
	if err == nil {
		_, err = w.Start(s.ID)
	}
	kind(t, err, node.Transient, "cannot start container 1-1", "apparmor_parser refuses it")
	if loads.Load() == 0 {
		t.Error("nobody tried to load it")
	}
}
