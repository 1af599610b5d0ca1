package container

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/pkg/node"
)

func TestRestartAfterExit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.looksRarely() // it is heard of, not found
	first := w.starts(w.spec("1-1", "once", "/marker", "7"))
	now := w.is("1-1", "running again", func(i node.ContainerInfo) bool {
		return i.State == node.ContainerRunning && i.Restarts == 1
	})
	if now.ExitCode != 7 || now.Ended == 0 || now.Next != 0 || now.PID == first.PID || now.Namespace != first.Namespace || now.Drift != "" {
		t.Errorf("after its end: %+v", now)
	}
	if len(now.LastLog) != 1 || now.LastLog[0] != "for the first time" {
		t.Errorf("its last lines are %q", now.LastLog)
	}
	all, err := w.List()
	if err != nil || len(all) != 1 || all[0].LastLog != nil || all[0].ExitCode != 7 {
		t.Errorf("list %+v (%v)", all, err)
	}
}

// looksRarely makes the module learn of exits from events alone.
func (w *world) looksRarely() {
	w.Helper()
	w.close()
	w.rarely = true
	w.open()
}

// areLast reports whether these are the last lines of the program "exit": line 0 to line 29 on its standard output, and "the end"
// on its standard error, which is anywhere among them: each stream is in order, the two aren't.
func areLast(lines []string) bool {
	at := slices.Index(lines, "the end")
	output := lines
	if at >= 0 {
		output = slices.Delete(slices.Clone(lines), at, at+1)
	}
	for i, line := range output {
		if line != fmt.Sprintf("line %d", 30-len(output)+i) {
			return false
		}
	}
	return len(lines) == lastLines
}

func TestRestartBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.starts(w.spec("1-1", "exit", "3"))
	waiting := w.is("1-1", "started again three times, and waits", func(i node.ContainerInfo) bool {
		return i.State == node.ContainerWaiting && i.Restarts >= 3 && i.Next != 0
	})
	if waiting.ExitCode != 3 || time.Duration(waiting.Next-waiting.Ended) < 500*time.Millisecond {
		t.Errorf("it waits %s: %+v", time.Duration(waiting.Next-waiting.Ended), waiting)
	}
	w.is("1-1", "remembered with its last lines", func(i node.ContainerInfo) bool { return areLast(i.LastLog) })
	w.close() // the knowledge survives the agent
	w.open()
	after, err := w.Inspect("1-1")
	must(t, err)
	if after.Restarts < waiting.Restarts || after.ExitCode != 3 || len(after.LastLog) == 0 || after.Cause != "" {
		t.Errorf("after a restart: %+v", after)
	}
	w.is("1-1", "started again by the next agent", func(i node.ContainerInfo) bool { return i.Restarts > after.Restarts })
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1")
}

func TestKilledAndDeletedByOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	before := w.runs(s)
	isBack := func(what string) {
		t.Helper()
		pid := before.PID
		before = w.is("1-1", "back after "+what, func(i node.ContainerInfo) bool {
			return i.State == node.ContainerRunning && i.PID != pid && i.Drift == ""
		})
	}
	must(t, syscall.Kill(int(before.PID), syscall.SIGKILL))
	isBack("kill -9")
	ctx, running := w.task("1-1")
	must(t, running.Kill(ctx, syscall.SIGKILL))
	isBack("ctr task kill")
	for _, shim := range containerdtest.Shims(w.cfg.RunDir) {
		must(t, syscall.Kill(shim, syscall.SIGKILL))
	}
	isBack("its shim was killed")
	ctx, running = w.task("1-1")
	_, err := running.Delete(ctx, client.WithProcessKill)
	must(t, err)
	isBack("ctr task delete -f")
	ctx, running = w.task("1-1")
	must(t, running.Pause(ctx))
	if all, err := w.List(); err != nil || all[0].Drift == "" || all[0].State != node.ContainerBroken {
		t.Errorf("a paused one: %+v (%v)", all, err)
	}
	_, err = w.Create(s)
	must(t, err)
	resumed, err := w.Start("1-1")
	if err != nil || resumed.PID != before.PID || resumed.State != node.ContainerRunning {
		t.Errorf("a paused one started: %+v (%v)", resumed, err)
	}

	ctx, running = w.task("1-1")
	container := w.load("1-1")
	// Faster than croft, which starts it again.
	eventually(t, "it is deleted", func() bool {
		_, _ = running.Delete(ctx, client.WithProcessKill)
		if container.Delete(ctx) == nil {
			return true
		}
		if again, err := container.Task(ctx, nil); err == nil {
			running = again
		}
		return false
	})
	all, err := w.List()
	if err != nil || len(all) != 0 {
		t.Errorf("deleted behind its back: %+v (%v)", all, err)
	}
	made, err := w.Create(s)
	must(t, err)
	back, err := w.Start("1-1")
	must(t, err)
	if made.Namespace != before.Namespace || back.State != node.ContainerRunning {
		t.Errorf("made again: %+v", back)
	}
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1")
}

func (w *world) load(id string) client.Container {
	w.Helper()
	ctx, c := w.behind("ada")
	found, err := c.LoadContainer(ctx, id)
	must(w, err)
	return found
}

func TestNextAgentAdoptsContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lives := w.runs(w.spec("1-1", "serve"))
	dies := w.runs(w.spec("1-2", "serve"))
	_, err := w.Create(w.spec("1-3", "serve"))
	must(t, err)
	if w.ready("1-3") == 0 {
		t.Error("what was created isn't ready to start")
	}
	shims := containerdtest.Shims(w.cfg.RunDir)
	w.close()
	must(t, syscall.Kill(int(dies.PID), syscall.SIGKILL))
	w.open()
	all, err := w.List()
	must(t, err)
	if len(all) != 3 || all[0].PID != lives.PID || all[0].Restarts != 0 || all[2].State != node.ContainerCreated {
		t.Errorf("after a restart: %+v", all)
	}
	back := w.is("1-2", "back", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning && i.PID != dies.PID })
	if back.ExitCode != 137 || back.Restarts != 1 || back.Ended == 0 {
		t.Errorf("what ended meanwhile: %+v", back)
	}
	if now, err := w.Inspect("1-1"); err != nil || now.PID != lives.PID {
		t.Errorf("what ran: %+v (%v)", now, err)
	}
	if now := containerdtest.Shims(w.cfg.RunDir); len(now) != len(shims) {
		t.Errorf("shims %v became %v", shims, now)
	}
}

func TestContainerdIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	lives := w.runs(s)
	dies := w.runs(w.spec("1-2", "serve"))
	for range 3 {
		must(t, unix.Kill(w.containerd(), unix.SIGKILL))
		_ = syscall.Kill(int(dies.PID), syscall.SIGKILL) // an exit that containerd can't tell of
		// Whatever is asked meanwhile is answered, or told to be asked again.
		for range 5 {
			if _, err := w.List(); err != nil {
				kind(t, err, node.Transient)
			}
			if _, err := w.Inspect("1-1"); err != nil {
				kind(t, err, node.Transient)
			}
			if _, err := w.Create(s); err != nil {
				kind(t, err, node.Transient)
			}
		}
		last := dies.PID
		dies = w.is("1-2", "back", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning && i.PID != last })
		now := w.is("1-1", "as before", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning })
		if now.PID != lives.PID || now.Restarts != 0 {
			t.Errorf("the other: %+v, was %+v", now, lives)
		}
	}
	if shims := containerdtest.Shims(w.cfg.RunDir); len(shims) != 2 {
		t.Errorf("shims %v, want two", shims)
	}
	must(t, w.Delete("1-1"))
	must(t, w.Delete("1-2"))
	w.nothingLeft("1-1", "1-2")
}

// A shim that hangs when containerd starts costs its own container alone.
func TestAHungShimHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	w.cfg.Containerd.Within = 0 // as a node has it
	w.open()
	lives := w.runs(w.spec("1-1", "serve"))
	before := containerdtest.Shims(w.cfg.RunDir)
	w.runs(w.spec("1-2", "serve"))
	hangs := slices.DeleteFunc(containerdtest.Shims(w.cfg.RunDir), func(pid int) bool { return slices.Contains(before, pid) })
	if len(hangs) != 1 {
		t.Fatalf("the shims of the second container are %v", hangs)
	}
	must(t, unix.Kill(hangs[0], unix.SIGSTOP))
	t.Cleanup(func() { _ = unix.Kill(hangs[0], unix.SIGCONT) })
	killed := w.containerd()
	must(t, unix.Kill(killed, unix.SIGKILL))
	eventually(t, "containerd is there again", func() bool { pid := w.maybeContainerd(); return pid != 0 && pid != killed })
	now := w.is("1-1", "as before", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning })
	if now.PID != lives.PID || now.Restarts != 0 {
		t.Errorf("the other: %+v, was %+v", now, lives)
	}
	must(t, unix.Kill(hangs[0], unix.SIGCONT))
}

// containerd is the process ID of the world's own containerd.
func (w *world) containerd() int {
	w.Helper()
	pid := w.maybeContainerd()
	if pid == 0 {
		w.Fatal("there is no containerd")
	}
	return pid
}

func (w *world) maybeContainerd() int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		raw, _ := os.ReadFile(path)
		if strings.Contains(string(raw), w.cfg.RunDir+"/containerd/config.toml") {
			return number(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0
}

func TestAfterAReboot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	w.runs(s)
	if code, out, _ := w.exec("1-1", "write", "/kept", "precious"); code != 0 {
		t.Fatal(out)
	}
	w.close()
	// All that runs and is mounted is gone, and the run folder empty.
	containerdtest.Clean(t, w.cfg.Containerd)
	w.endLogs()
	must(t, os.RemoveAll(w.cfg.RunDir))
	must(t, os.Mkdir(w.cfg.RunDir, 0o711))
	w.open()
	all, err := w.List()
	if err != nil || len(all) != 1 || all[0].State != node.ContainerBroken || all[0].Drift == "" || all[0].PID != 0 {
		t.Fatalf("after a reboot: %+v (%v)", all, err)
	}
	_, err = w.Start("1-1")
	kind(t, err, node.Transient, "create")
	back := w.runs(s)
	if back.Drift != "" {
		t.Errorf("made again: %+v", back)
	}
	if _, out, _ := w.exec("1-1", "read", "/kept"); out != "precious" {
		t.Errorf("its layer holds %q", out)
	}
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1")
}

func TestLostNamespaceIsDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	info := w.runs(s)
	must(t, unix.Unmount(info.Namespace, unix.MNT_DETACH))
	all, err := w.List()
	if err != nil || len(all) != 1 || all[0].Drift == "" || all[0].State != node.ContainerBroken {
		t.Fatalf("without its namespace: %+v (%v)", all, err)
	}
	back := w.runs(s)
	if back.PID == info.PID || back.Drift != "" {
		t.Errorf("made again: %+v", back)
	}
}

func TestLeftoversOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Create(w.spec("1-1", "serve"))
	must(t, err)
	ctx, c := w.behind("ada")
	must(t, c.ContainerService().Delete(ctx, "1-1"))
	w.close() // as if it had been killed in the middle of a delete
	w.open()
	eventually(t, "nothing stands and nothing is known", func() bool {
		left, _ := filepath.Glob(filepath.Join(w.cfg.RunDir, "container/1-1"))
		records, _ := filepath.Glob(filepath.Join(w.cfg.RunDir, "supervised/*"))
		return len(left)+len(records) == 0
	})
	eventually(t, "no namespace is left", func() bool {
		users, err := w.module.daemon.Users(t.Context())
		return err == nil && len(users) == 0
	})
	w.nothingLeft("1-1")
}

// TestAgentEndsWhileItPreparesTasks: containerd leaves a shim behind when the making of a task is cancelled.
func TestAgentEndsWhileItPreparesTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := []string{"1-1", "1-2", "1-3", "1-4"}
	for round := range 6 {
		for _, id := range ids {
			_, err := w.Create(w.spec(id, "serve"))
			must(t, err)
		}
		time.Sleep(time.Duration(round) * 40 * time.Millisecond) // at which step of theirs the agent ends
		if ctx, c := w.behind("ada"); round%2 == 0 {
			for _, id := range ids {
				must(t, c.ContainerService().Delete(ctx, id))
			}
		}
		w.close()
		w.open()
		for _, id := range ids {
			if err := w.Delete(id); err != nil {
				kind(t, err, node.NotExist)
			}
		}
		w.nothingLeft(ids...)
	}
}
