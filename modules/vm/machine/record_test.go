package machine_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/node"
)

// TestTransitions: in every order of events, a record that waits has a time for its next start, one that
// runs has a process, nothing starts a VM that is being deleted, and a refused event changes nothing.
func TestTransitions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1, 0)
		r := machine.New(node.VMSpec{ID: "1-1", Config: []byte("secret")}, 7)
		deleted, starts := false, uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "pause")))
			before := r
			var err error
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				r, err = r.Begin("tcg")
			case 1:
				r, err = r.Began(machine.Process{PID: 9, Start: 1}, now)
				if err == nil {
					starts++
				}
			case 2:
				r, err = r.Failed("no memory", now, machine.Pauses())
			case 3:
				r, err = r.Exited("killed", now, machine.Pauses())
			case 4:
				r, err = r.Renewed(node.VMSpec{ID: "1-1", CPU: 2, Config: []byte("secret")})
			case 5:
				if rapid.IntRange(0, 9).Draw(t, "deletes") == 0 {
					r, deleted = r.Stop(), true
				}
			}
			check(t, before, r, err)
			if deleted && r.Phase != machine.Stopping {
				t.Fatalf("a VM that is being deleted is %s", r.Phase)
			}
			if r.Starts != starts {
				t.Fatalf("%d starts are recorded, %d were made", r.Starts, starts)
			}
			elsewhen := now.Add(time.Duration(rapid.Int64Range(-int64(20*365*24*time.Hour), int64(20*365*24*time.Hour)).Draw(t, "set clock")))
			if pause := r.Pause(elsewhen); pause < 0 || pause > machine.Pauses().Max {
				t.Fatalf("with its clock at %s the node waits %s", elsewhen, pause)
			}
			if r.Next != 0 && r.Next < now.UnixNano()-int64(20*time.Minute)*60 {
				t.Fatalf("the next start is at %d, now is %d", r.Next, now.UnixNano())
			}
		}
	})
}

func check(t *rapid.T, before, r machine.Record, err error) {
	if err != nil && (r.Phase != before.Phase || r.Next != before.Next || r.Process != before.Process) {
		t.Fatalf("a refused event has changed the record: %+v, before %+v", r, before)
	}
	if (r.Phase == machine.Running) != (r.Process.PID != 0) && r.Phase != machine.Stopping {
		t.Fatalf("it is %s with process %d", r.Phase, r.Process.PID)
	}
	if r.Phase == machine.Waiting && r.Failures > 0 && r.Next == 0 {
		t.Fatal("it waits for no time")
	}
	if r.Spec.Config != nil {
		t.Fatal("the record has the config disk")
	}
}

// TestPausesGrow: a VM that ends at once waits longer each time, one that ran for long begins anew.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	r := machine.New(node.VMSpec{ID: "1-1"}, 7)
	var pauses []time.Duration
	live := func(runs time.Duration) {
		for _, step := range []func() (machine.Record, error){
			func() (machine.Record, error) { return r.Begin("tcg") },
			func() (machine.Record, error) { return r.Began(machine.Process{PID: 9}, now) },
			func() (machine.Record, error) {
				now = now.Add(runs)
				return r.Exited("it ended", now, machine.Pauses())
			},
		} {
			next, err := step()
			if err != nil {
				t.Fatal(err)
			}
			r = next
		}
		pauses = append(pauses, time.Unix(0, r.Next).Sub(now))
	}
	for range 12 {
		live(time.Second)
	}
	live(time.Hour)
	longest, base := machine.Pauses().Max, machine.Pauses().Base
	if pauses[0] > base || pauses[11] < longest/2 || pauses[11] > longest || pauses[12] > base {
		t.Errorf("pauses: %v", pauses)
	}
}

// TestProcessIdentity: a process that has ended isn't mistaken for another with its number.
func TestProcessIdentity(t *testing.T) {
	t.Parallel()
	self, err := machine.Identify(os.Getpid())
	if err != nil || !self.Runs() {
		t.Fatalf("this process: %+v, %v", self, err)
	}
	if other := (machine.Process{PID: self.PID, Start: self.Start + 1}); other.Runs() {
		t.Error("another process with the same number runs")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := machine.Identify(cmd.Process.Pid)
	if err != nil || !child.Runs() {
		t.Fatalf("the child: %+v, %v", child, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Wait()
	if child.Runs() {
		t.Error("a process that has ended runs")
	}
	if cpu, err := self.CPU(); err != nil || cpu > uint64(time.Hour) {
		t.Errorf("processor time %d, %v", cpu, err)
	}
}

// TestFirstThreadEnds: a process whose first thread has ended runs while another one does, though it looks like a zombie.
func TestFirstThreadEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "program.c"), filepath.Join(dir, "program")
	text := `
#include <pthread.h>
#include <unistd.h>
static void *wait_forever(void *none) { for (;;) pause(); }
int main(void) { pthread_t t; pthread_create(&t, 0, wait_forever, 0); pthread_exit(0); }
`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", "-o", program, source, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := machine.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	zombie := func() bool {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		return bytes.Contains(raw, []byte(") Z "))
	}
	for deadline := time.Now().Add(time.Minute); !zombie(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first thread has not ended")
		}
	}
	if !p.Runs() {
		t.Error("it doesn't run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); p.Runs(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a killed zombie runs")
		}
	}
	_, _ = cmd.Process.Wait()
}
