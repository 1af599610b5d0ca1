package hooks_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/pkg/cgroup"
)

// stick keeps the first group of a stage's hooks from being removed, as one does whose process can't be killed.
func (s *stage) stick(t *testing.T) cgroup.Group {
	t.Helper()
	g, err := cgroup.Beside(cgroup.Name("hooks", s.runDir))
	must(t, err)
	must(t, g.Make())
	dir := g.Folders()[0]
	must(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = os.Remove(dir)
		g.Remove()
	})
	return g
}

// Hooks of an earlier life that can't be ended keep neither the node nor the hooks of this life from going on.
func TestStuckHooksOfAnEarlierLife(t *testing.T) {
	s := &stage{events: make(chan hooks.Event), runs: make(chan hooks.Run, 10), ended: make(chan error, 1), runDir: t.TempDir()}
	stuck := s.stick(t)
	s.open(t, 0, []hooks.Hook{onAny("a", "cat /proc/self/cgroup")})
	s.send(t, event("1"))
	r := s.next(t)
	if r.Err != "" || !strings.Contains(r.Output, "/croft-hooks-") || strings.Contains(r.Output, cgroup.Name("hooks", s.runDir)) {
		t.Errorf("%+v", r)
	}
	if !stuck.There() {
		t.Error("the stuck group is gone: this test shows nothing")
	}
}

// Without control groups no program of an operator runs, which its run says; the rest goes on.
func TestAMachineWithoutControlGroups(t *testing.T) {
	for want, beside := range map[string]func(string) (cgroup.Group, error){
		"this machine has none": func(string) (cgroup.Group, error) { return cgroup.Group{}, nil },
		"no /proc":              func(string) (cgroup.Group, error) { return cgroup.Group{}, errors.New("no /proc") },
	} {
		s := &stage{events: make(chan hooks.Event), runs: make(chan hooks.Run, 10), ended: make(chan error, 1), runDir: t.TempDir(), beside: beside}
		program := onAny("program", "echo a")
		program.Events = []hooks.Match{{ID: "program"}}
		chore := hooks.Hook{Name: "chore", Events: []hooks.Match{{ID: "chore"}}, Do: func(context.Context) error { return nil }, Timeout: patience, Queue: "q"}
		s.open(t, 0, []hooks.Hook{program, chore})
		for range 2 {
			s.send(t, event("program"))
			if r := s.next(t); r.Exit != -1 || r.Output != "" || !strings.HasPrefix(r.Err, "cannot hold the hook's processes") || !strings.Contains(r.Err, want) {
				t.Errorf("%+v, want %q", r, want)
			}
			s.send(t, event("chore"))
			if r := s.next(t); r.Err != "" {
				t.Errorf("%+v", r)
			}
		}
		s.end(t)
	}
}

// Nothing is made before the first program runs.
func TestNoControlGroupWithoutAProgram(t *testing.T) {
	s := play(t, 0, hooks.Hook{Name: "chore", Events: []hooks.Match{{ID: "chore"}}, Do: func(context.Context) error { return nil }, Timeout: patience, Queue: "q"})
	g, err := cgroup.Beside(cgroup.Name("hooks", s.runDir))
	must(t, err)
	s.send(t, event("chore"))
	s.next(t)
	if g.There() {
		t.Error("there is a group of hooks although no program ran")
	}
	must(t, s.Set([]hooks.Hook{onAny("a", "echo a")}))
	s.send(t, event("1"))
	if r := s.next(t); r.Err != "" || !g.There() {
		t.Errorf("after a run there is no group: %+v", r)
	}
}
