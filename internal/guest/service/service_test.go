package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/guest/service"
)

// console collects what the runner says.
type console struct {
	mu    sync.Mutex
	lines []string
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// await waits for a condition with a generous deadline.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			t.Fatalf("%s doesn't come", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func lines(path string) int {
	b, _ := os.ReadFile(path)
	return strings.Count(string(b), "\n")
}

func TestProgramIsKeptRunning(t *testing.T) {
	dir, c := t.TempDir(), &console{}
	r := service.NewRunner(dir, c.say)
	marks := filepath.Join(dir, "marks")
	s, err := r.Start(service.Spec{Name: "p", Command: []string{"/bin/sh", "-c", "echo $GREETING; echo x >> " + marks + "; exit 3"}, Env: []string{"GREETING=hello"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(service.Spec{Name: "p", Command: []string{"/bin/true"}}); err == nil {
		t.Error("a second program of the same name is started")
	}
	await(t, "a third start", func() bool { return lines(marks) >= 3 })
	r.Stop("p", "unknown")
	n := lines(marks)
	if text := c.text(); !strings.Contains(text, "p ended: exit status 3") || !strings.Contains(text, "p: hello") {
		t.Errorf("the console has:\n%s", text)
	}
	if last := s.Log().Last(1); len(last) != 1 || last[0] != "hello" {
		t.Errorf("the last line is %q", last)
	}
	if len(r.Running()) != 0 {
		t.Errorf("%v run after their stop", r.Running())
	}
	// It isn't started again after its stop, and can be by another start.
	if _, err := r.Start(service.Spec{Name: "p", Command: []string{"/bin/sh", "-c", "echo y >> " + marks + "; exec sleep 1000"}}); err != nil {
		t.Fatal(err)
	}
	await(t, "a new start", func() bool { return lines(marks) > n })
	if got := lines(marks); got != n+1 {
		t.Errorf("after its stop the program has started %d times more, want once", got-n)
	}
	r.Stop("p")
}

func TestStop(t *testing.T) {
	dir := t.TempDir()
	r := service.NewRunner(dir, (&console{}).say)
	for name, script := range map[string]string{
		"gentle": "trap 'echo ended > " + dir + "/gentle; exit' TERM; echo > " + dir + "/up-gentle; while :; do sleep 0.05; done",
		"deaf":   "trap '' TERM; echo > " + dir + "/up-deaf; while :; do sleep 0.05; done",
	} {
		if _, err := r.Start(service.Spec{Name: name, Command: []string{"/bin/sh", "-c", script}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gentle", "deaf"} {
		await(t, "the start of "+name, func() bool { return lines(dir+"/up-"+name) == 1 })
	}
	r.Stop(r.Running()...)
	if lines(dir+"/gentle") != 1 {
		t.Error("a program isn't asked to end before it is made to")
	}
}

// TestClose: what runs goes on, and nothing new is started.
func TestClose(t *testing.T) {
	r := service.NewRunner(t.TempDir(), new(console).say)
	if _, err := r.Start(service.Spec{Name: "first", Command: []string{"sleep", "600"}}); err != nil {
		t.Fatal(err)
	}
	defer r.Stop("first")
	r.Close()
	if _, err := r.Start(service.Spec{Name: "second", Command: []string{"sleep", "600"}}); err == nil || !strings.Contains(err.Error(), "no more programs") {
		t.Errorf("after Close a program is started: %v", err)
	}
	if r.Service("first") == nil || r.Service("second") != nil {
		t.Errorf("these run: %v", r.Running())
	}
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	r := service.NewRunner(dir, (&console{}).say)
	marks := filepath.Join(dir, "marks")
	s, err := r.Start(service.Spec{Name: "p", Command: []string{"/bin/sh", "-c", "echo >> " + marks + "; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop("p")
	await(t, "the start", func() bool { return lines(marks) == 1 })
	s.Restart()
	await(t, "the next start", func() bool { return lines(marks) == 2 })
}

// TestLog writes more than a log keeps: what is kept is the end of it, without a gap, in at most two files' size.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	l, err := service.OpenLog(dir, "p")
	if err != nil {
		t.Fatal(err)
	}
	const count = 90_000
	for i := range count {
		fmt.Fprintf(l, "line %06d %s\n", i, strings.Repeat("x", 100))
		if i == count/2 { // opened anew, it goes on
			l.Close()
			if l, err = service.OpenLog(dir, "p"); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.Close()
	old, _ := os.ReadFile(filepath.Join(dir, "p.log.old"))
	now, _ := os.ReadFile(filepath.Join(dir, "p.log"))
	if len(old) > 4<<20 || len(now) > 4<<20 || len(old) < 3<<20 {
		t.Errorf("the files have %d and %d bytes", len(old), len(now))
	}
	all := strings.Split(strings.TrimSpace(string(old)+string(now)), "\n")
	for i, line := range all {
		if want := fmt.Sprintf("line %06d ", count-len(all)+i); !strings.HasPrefix(line, want) {
			t.Fatalf("line %d is %.20q, want %q", i, line, want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("the folder has %v", entries)
	}
}

// TestLogOutlivesItsFolder has a program go on when its log can't be written.
func TestLogOutlivesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := service.OpenLog(dir, "p")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	os.RemoveAll(dir)
	for range 100 {
		if n, err := l.Write(make([]byte, 100_000)); n != 100_000 || err != nil {
			t.Fatalf("a write answers %d, %v", n, err)
		}
	}
	fmt.Fprintln(l, "\nthe last")
	if last := l.Last(1); len(last) != 1 || last[0] != "the last" {
		t.Errorf("the last line is %q", last)
	}
}

// TestReadiness holds that a program is ready once a try has seen it, and no longer when it has ended.
func TestReadiness(t *testing.T) {
	dir := t.TempDir()
	r := service.NewRunner(dir, (&console{}).say)
	up := filepath.Join(dir, "up")
	s, err := r.Start(service.Spec{
		Name: "p", Command: []string{"/bin/sh", "-c", "exec sleep 1000"},
		Ready: func(context.Context) error { _, err := os.Stat(up); return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop("p")
	await(t, "a failed try", func() bool { return s.State().Cause != "" })
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.WaitReady(short); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("it is waited for with %v", err)
	}
	if err := os.WriteFile(up, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	os.Remove(up)
	pid := s.State().PID
	s.Restart()
	await(t, "another process that isn't ready", func() bool { is := s.State(); return is.PID > 0 && is.PID != pid && !is.Ready })
	if is := r.States(); len(is) != 1 || is[0].Ends != 1 || !strings.Contains(is[0].LastEnd, "terminated") {
		t.Errorf("%+v", is)
	}
}

// TestLeftovers holds that what a killed runner has left running is ended, and nothing else.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	r := service.NewRunner(dir, (&console{}).say)
	r.PIDsIn(dir)
	s, err := r.Start(service.Spec{Name: "p", Command: []string{"/bin/sh", "-c", "exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop("p")
	await(t, "the start", func() bool { return s.State().PID > 0 && lines(filepath.Join(dir, "p.pid")) == 1 })
	// A process that has the number now, but isn't the one that was started.
	if err := os.WriteFile(filepath.Join(dir, "other.pid"), fmt.Appendf(nil, "%d 1\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "damaged.pid"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	pid := s.State().PID
	names, err := service.EndLeftovers(dir)
	if err != nil || len(names) != 1 || names[0] != "p" {
		t.Fatalf("%v, %v", names, err)
	}
	await(t, "the next start", func() bool { is := s.State(); return is.PID > 0 && is.PID != pid })
}
