package container

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/logs"
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

// A container that was made with a profile starts after the machine has lost AppArmor, and one that was made without gets it later.
func TestAContainerStartsWithTheProfileOfTheDay(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	first := w.runs(s)
	now, other := w.module.service.status.runtime.host.Profile, spec.ProfileName
	if now == other {
		other = ""
	}
	ctx, c := w.behind("ada")
	made, err := c.LoadContainer(ctx, s.ID)
	must(t, err)
	before, err := made.Spec(ctx)
	must(t, err)
	labels, err := made.Labels(ctx)
	must(t, err)
	changed := *before.Process
	changed.ApparmorProfile = other
	then := *before
	then.Process = &changed
	must(t, made.Update(ctx, client.UpdateContainerOpts(client.WithSpec(&then))))

	must(t, syscall.Kill(int(first.PID), syscall.SIGKILL))
	w.is(s.ID, "started again", func(i node.ContainerInfo) bool {
		return i.State == node.ContainerRunning && i.PID != first.PID && i.PID != 0
	})
	after, err := made.Spec(ctx)
	must(t, err)
	if !reflect.DeepEqual(after, before) {
		t.Errorf("its specification is\n%+v, want\n%+v", after, before)
	}
	if got, err := made.Labels(ctx); err != nil || !maps.Equal(got, labels) {
		t.Errorf("its labels are %v, %v, want %v", got, err, labels)
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

// Others unload the profile, as aa-teardown does, while a container runs: what its owner runs in it gets the profile all the same. A machine
// without AppArmor has none to unload.
func TestAnExecAfterTheProfileWasUnloaded(t *testing.T) {
	w := newWorld(t)
	first := w.runs(w.spec("1-1", "serve"))
	if profile := w.module.service.status.runtime.host.Profile; profile != "" {
		label, err := os.ReadFile(fmt.Sprintf("/proc/%d/attr/current", first.PID))
		if got, want := strings.TrimSpace(string(label)), profile+" (enforce)"; err != nil || got != want {
			t.Errorf("its first process has the profile %q (%v), want %q", got, err, want)
		}
		t.Logf("unloading %s, which its first process has", profile)
		unload := exec.CommandContext(t.Context(), "apparmor_parser", "--remove")
		unload.Stdin = strings.NewReader("profile " + profile + " {}\n")
		if out, err := unload.CombinedOutput(); err != nil {
			t.Fatalf("cannot unload the profile: %v: %s", err, out)
		}
	}
	code, _, errs := w.exec("1-1", "exit", "42")
	if code != 42 {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// Nothing runs in a container without the profile that it has.
func TestAnExecWhoseProfileCannotBeLoaded(t *testing.T) {
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve"))
	s := newStreams(w.cfg.withDefaults(), w.module.daemon, logs.NewFollowers())
	asked := []string{}
	s.execs.Confine = func(profile string) error {
		asked = append(asked, profile)
		return errors.New("apparmor_parser refuses it")
	}
	_, err := s.Exec(t.Context(), "1-1", execs.Options{Args: []string{"tool", "exit", "0"}}, execs.Streams{})
	kind(t, err, node.Transient, `cannot run "tool" in container 1-1`, "apparmor_parser refuses it")
	if want := []string{w.module.service.status.runtime.host.Profile}; !slices.Equal(asked, want) {
		t.Errorf("it was asked for the profiles %q, want %q", asked, want)
	}
}
