package rootfs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// crash runs in a process of this binary, which ends by SIGKILL at a step.
type crash struct {
	RunDir string
	State  string
	Spec   Spec
	Do     string // Make, Remove or HandOver
	Step   int
}

func crashInside() int {
	var c crash
	if err := json.Unmarshal([]byte(os.Getenv("CROFT_TEST_CRASH")), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := Open(Config{RunDir: c.RunDir, StateDir: c.State})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if c.Do == "HandOver" {
		if _, err := s.Make(context.Background(), c.Spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	step := 0
	s.reached = func(string) {
		if step++; step == c.Step {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {} // the signal is on its way
		}
	}
	switch c.Do {
	case "Make":
		_, err = s.Make(context.Background(), c.Spec)
	case "Remove":
		err = s.Remove(context.Background(), c.Spec.ID)
	case "HandOver":
		err = s.HandOver(context.Background(), c.Spec.ID)
	}
	fmt.Fprintln(os.Stderr, "it didn't end at step", c.Step, err)
	return 1
}

// crashAt runs a process until it ends at a step.
func (w *world) crashAt(c crash) {
	w.t.Helper()
	c.RunDir, c.State = w.config().RunDir, w.config().StateDir
	raw, err := json.Marshal(c)
	must(w.t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+crashRole, "CROFT_TEST_CRASH="+string(raw))
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != unix.SIGKILL {
		w.t.Fatalf("%v\n%s", err, out)
	}
	w.open()
}

// steps are the names of those that fn passes.
func (w *world) steps(fn func()) (names []string) {
	w.store.reached = func(name string) { names = append(names, name) }
	defer func() { w.store.reached = func(string) {} }()
	fn()
	return names
}

func TestRecoveryFromACrashAtEveryStep(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	volume := w.folderIn("volume")
	must(t, os.WriteFile(volume+"/kept", []byte("kept"), 0o644))
	s.Binds = []Bind{{Source: volume, Target: "/data", Mapped: true}, {Source: volume, Target: "/etc/x/y", ReadOnly: true}}
	const mounts = 1 + 2 + 1
	making := w.steps(func() { w.make(s) })
	removing := w.steps(func() { must(t, w.store.Remove(t.Context(), s.ID)) })
	if len(making) < 10 || len(removing) < 4 {
		t.Fatalf("only the steps %v, %v", making, removing)
	}
	check := func(t *testing.T, makeFirst bool) {
		w := &world{t: t, dir: w.dir, store: w.store}
		if makeFirst {
			w.make(s)
			w.whole(s.ID, mounts)
		}
		must(t, w.store.Remove(t.Context(), s.ID))
		w.nothing(s.ID)
		if raw, err := os.ReadFile(volume + "/kept"); err != nil || string(raw) != "kept" {
			t.Fatalf("the volume lost its file: %q, %v", raw, err)
		}
	}
	for _, makeFirst := range []bool{true, false} {
		for i, name := range making {
			t.Run(fmt.Sprintf("making/%s/%t", name, makeFirst), func(t *testing.T) {
				w.crashAt(crash{Spec: s, Do: "Make", Step: i + 1})
				check(t, makeFirst)
			})
		}
		t.Run(fmt.Sprintf("handing over/%t", makeFirst), func(t *testing.T) {
			w.make(s)
			w.crashAt(crash{Spec: s, Do: "HandOver", Step: 1})
			check(t, makeFirst)
		})
		for i, name := range removing {
			t.Run(fmt.Sprintf("removing/%s/%t", name, makeFirst), func(t *testing.T) {
				w.make(s)
				w.crashAt(crash{Spec: s, Do: "Remove", Step: i + 1})
				check(t, makeFirst)
			})
		}
	}
}
