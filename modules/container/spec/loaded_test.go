package spec_test

import (
	"errors"
	"testing"

	"github.com/croft-edge/croft/modules/container/spec"
)

// The profile is loaded where the kernel doesn't list it, and only there.
func TestTheProfileIsLoadedAgain(t *testing.T) {
	const folder = "sys/kernel/security/apparmor/"
	for name, c := range map[string]struct {
		file, list, profile string
		failure             error
		loads               int
	}{
		"it is there":           {folder + "profiles", "docker-default (enforce)\ncroft-container (enforce)\n", spec.ProfileName, nil, 0},
		"it only complains":     {folder + "profiles", "croft-container (complain)\n", spec.ProfileName, nil, 0},
		"it is unloaded":        {folder + "profiles", "docker-default (enforce)\n", spec.ProfileName, nil, 1},
		"others are like it":    {folder + "profiles", "croft-container-2 (enforce)\nmy croft-container (enforce)\ncroft-container//sub (enforce)\n", spec.ProfileName, nil, 1},
		"all are unloaded":      {folder + "profiles", "", spec.ProfileName, nil, 1},
		"the list is missing":   {folder + "features", "", spec.ProfileName, nil, 1},
		"it can't be loaded":    {folder + "profiles", "", spec.ProfileName, errors.New("refused"), 1},
		"containers have none":  {folder + "profiles", "", "", nil, 0},
		"a machine without one": {"sys/module/name", "", "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.file(c.file, c.list)
			loads := 0
			load := func() error {
				loads++
				if c.failure == nil {
					m.file(folder+"profiles", c.list+"croft-container (enforce)\n")
				}
				return c.failure
			}
			l := spec.KeepLoaded(spec.Host{AppArmor: c.profile != "", Profile: c.profile})
			l.Sys, l.Load = m.dir+"/sys", load
			for range 2 {
				if got, err := l.Ready(); got != c.profile || !errors.Is(err, c.failure) {
					t.Errorf("got %q, %v, want %q, %v", got, err, c.profile, c.failure)
				}
				if c.failure != nil {
					break
				}
			}
			if loads != c.loads {
				t.Errorf("it was loaded %d times, want %d", loads, c.loads)
			}
		})
	}
}

// A container without a profile needs none.
func TestNoProfileIsKept(t *testing.T) {
	if err := spec.KeepProfile(""); err != nil {
		t.Error(err)
	}
}
