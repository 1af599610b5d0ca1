package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/pkg/cgroup"
)

// TestMain is a hook's process too, as croftd is.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "hook" {
		fmt.Fprintln(os.Stderr, hooks.Exec(os.Args[2:]))
		os.Exit(126)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds each wait of these tests.
const patience = 2 * time.Minute

// stage is a runner that runs, and what it reported.
type stage struct {
	*hooks.Runner
	events chan hooks.Event
	runs   chan hooks.Run
	stop   context.CancelFunc
	ended  chan error
	runDir string
	// beside, when not nil, finds control groups.
	beside func(name string) (cgroup.Group, error)
}

// Report implements hooks.Reporter.
func (s *stage) Report(r hooks.Run) { s.runs <- r }

func play(t *testing.T, drain time.Duration, all ...hooks.Hook) *stage {
	t.Helper()
	s := &stage{events: make(chan hooks.Event), runs: make(chan hooks.Run, 10000), ended: make(chan error, 1), runDir: t.TempDir()}
	s.open(t, drain, all)
	return s
}

func (s *stage) open(t *testing.T, drain time.Duration, all []hooks.Hook) {
	t.Helper()
	r, err := hooks.New(hooks.Config{RunDir: s.runDir, Command: []string{"/proc/self/exe", "hook"}, Events: s.events, Reporter: s, Drain: drain, Log: zerolog.Nop()})
	must(t, err)
	must(t, r.Set(all))
	s.Runner = r
	if s.beside != nil {
		r.FindGroups(s.beside)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.ended <- r.Run(ctx) }()
	t.Cleanup(func() { s.end(t) })
}

func (s *stage) end(t *testing.T) {
	t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Error(err)
		}
		s.ended <- nil // for the next end
	case <-time.After(patience):
		t.Fatal("it doesn't stop")
	}
}

func (s *stage) send(t *testing.T, e hooks.Event) {
	t.Helper()
	select {
	case s.events <- e:
	case <-time.After(patience):
		t.Fatal("nobody takes events")
	}
}

func (s *stage) next(t *testing.T) hooks.Run {
	t.Helper()
	select {
	case r := <-s.runs:
		return r
	case <-time.After(patience):
		t.Fatal("no hook has run")
		return hooks.Run{}
	}
}

// onAny is a hook that runs a script at each event.
func onAny(name, script string) hooks.Hook {
	return hooks.Hook{Name: name, Events: []hooks.Match{{Type: "*"}}, Argv: []string{"/bin/sh", "-c", script}, Timeout: patience, Queue: hooks.DefaultQueue}
}

func event(id string) hooks.Event {
	return hooks.Event{Time: time.Unix(1800000000, 0), Kind: hooks.Warning, Reason: "Drifted", Operation: "Secondary", ObjectType: "container", ObjectID: id, Message: "gone", Count: 2}
}

// processes are the processes that have that text in their command line.
func processes(t *testing.T, text string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range all {
		raw, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() && bytes.Contains(raw, []byte(text)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// wait polls until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("still waiting for " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAHookRunsOnAnEvent(t *testing.T) {
	s := play(t, 0, onAny("show", `env | sort; ls -l /proc/self/fd | grep -o '/dev/[^p].*\|socket.*'; nice; pwd; umask; echo to stderr >&2; exit 3`))
	e := event("5-1")
	e.Message = "two\nlines\x00$(reboot)\xff" + strings.Repeat("x", 5000)
	s.send(t, e)
	r := s.next(t)
	for _, want := range []string{
		"CROFT_EVENT_COUNT=2\n", "CROFT_EVENT_MESSAGE=two lines $(reboot)?xxx", "CROFT_EVENT_OBJECT_ID=5-1\n", "CROFT_EVENT_OBJECT_TYPE=container\n", "CROFT_EVENT_OPERATION=Secondary\n",
		"CROFT_EVENT_REASON=Drifted\n", "CROFT_EVENT_TIME=2027-01-15T08:00:00Z\n", "CROFT_EVENT_TYPE=Warning\n", "PATH=/usr/local/sbin:", "/dev/null\n10\n/\n0022\nto stderr\n",
	} {
		if !strings.Contains(r.Output, want) {
			t.Errorf("%q isn't in its output", want)
		}
	}
	for text := range strings.Lines(r.Output) {
		if name, _, is := strings.Cut(text, "="); is && !strings.HasPrefix(name, "CROFT_EVENT_") && name != "PATH" && name != "PWD" && name != "_" && name != "OLDPWD" && name != "SHLVL" {
			t.Errorf("its environment has %s", text)
		}
	}
	if r.Hook != "show" || r.Exit != 3 || r.Err != "the program ended with exit status 3" || r.Event == nil || r.Event.ObjectID != "5-1" || !r.Ended.After(r.Started) {
		t.Errorf("%+v", r)
	}
}

func TestAHookInheritsNoFiles(t *testing.T) {
	file, err := os.Open("/etc/hostname")
	must(t, err)
	defer file.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_SETFD, 0) // one that isn't closed on exec
	if errno != 0 {
		t.Fatal(errno)
	}
	s := play(t, 0, onAny("fds", "ls /proc/$$/fd"))
	s.send(t, event("1"))
	if r := s.next(t); r.Output != "0\n1\n2\n" {
		t.Errorf("it has the files %s (%s)", r.Output, r.Err)
	}
}

func TestAHookRunsOnASchedule(t *testing.T) {
	every, err := hooks.ParseCron("@every 1s")
	must(t, err)
	s := play(t, 0, hooks.Hook{Name: "tick", Schedule: every, Argv: []string{"/bin/echo", "tick"}, Timeout: patience, Queue: "q"})
	for range 3 {
		if r := s.next(t); r.Output != "tick\n" || r.Err != "" || r.Event != nil || r.Exit != 0 {
			t.Errorf("%+v", r)
		}
	}
	if st := s.State(); len(st.Hooks) != 1 || st.Hooks[0].Next.IsZero() || st.Hooks[0].Last == nil || len(st.Queues) != 1 {
		t.Errorf("%+v", st)
	}
}

func TestAClockThatIsSet(t *testing.T) {
	daily, err := hooks.ParseCron("0 12 * * *")
	must(t, err)
	s := play(t, 0, hooks.Hook{Name: "noon", Schedule: daily, Argv: []string{"/bin/true"}, Timeout: patience, Queue: "q"})
	next := func() time.Time { return s.State().Hooks[0].Next }
	first := next()
	s.Look(first.AddDate(0, 0, -7), -7*24*time.Hour) // back: it isn't waited for a week
	if got := next(); !got.Before(first) {
		t.Errorf("after a step back it is due at %s, was %s", got, first)
	}
	s.Look(first.AddDate(1, 0, 0), 365*24*time.Hour) // forward: a year of noons isn't made up for
	select {
	case r := <-s.runs:
		t.Errorf("a step forward runs it: %+v", r)
	case <-time.After(100 * time.Millisecond):
	}
	if got := next(); !got.After(first.AddDate(0, 11, 0)) {
		t.Errorf("after a step forward it is due at %s", got)
	}
}

// A hook that hides what it starts, in sessions and process groups of their own, is killed with all of it.
func TestAHangingHookIsKilledWithItsChildren(t *testing.T) {
	mark := fmt.Sprint(1e6 + os.Getpid())
	h := onAny("hang", fmt.Sprintf(`for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP INT; sleep %[1]s & exec sleep %[1]s' & done; (setsid setsid sleep %[1]s &); echo begun; exec sleep %[1]s`, mark))
	h.Timeout = 10 * time.Second
	s := play(t, 0, h)
	s.send(t, event("1"))
	wait(t, "its children", func() bool { return len(processes(t, "sleep\x00"+mark)) == 8 })
	r := s.next(t)
	if left := processes(t, mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if !strings.Contains(r.Err, "killed after its timeout") || r.Exit != -1 || r.Output != "begun\n" {
		t.Errorf("%+v", r)
	}
}

func TestWhatAHookLeavesIsKilled(t *testing.T) {
	mark := fmt.Sprint(2e6 + os.Getpid())
	s := play(t, 0, onAny("leave", "setsid sleep "+mark+" & sleep "+mark+" & echo done"))
	s.send(t, event("1"))
	if r := s.next(t); r.Err != "" || r.Output != "done\n" {
		t.Errorf("%+v", r)
	}
	if left := processes(t, mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestAHookThatForksWithoutEnd(t *testing.T) {
	mark := fmt.Sprint(3e6 + os.Getpid())
	// The eight begin once all of them are there: else they leave no process for the others.
	begin := filepath.Join(t.TempDir(), "begin")
	h := onAny("forks", "for i in 1 2 3 4 5 6 7 8; do sh -c 'until [ -e "+begin+" ]; do :; done; while :; do setsid sleep "+mark+" & done' 2>/dev/null & done; "+
		": > "+begin+"; exec sleep "+mark)
	h.Timeout = 10 * time.Second
	s := play(t, 0, h)
	s.send(t, event("1"))
	most := 0
	var r hooks.Run
	for r.Hook == "" {
		select {
		case r = <-s.runs:
		default:
			most = max(most, len(processes(t, mark)))
			time.Sleep(5 * time.Millisecond)
		}
	}
	if most < 2 || most > 260 || len(processes(t, mark)) > 0 || !strings.Contains(r.Err, "killed after") {
		t.Errorf("it had %d processes, %d are left: %+v", most, len(processes(t, mark)), r)
	}
}

func TestAHookThatWritesAGigabyte(t *testing.T) {
	h := onAny("writes", "echo begin; dd if=/dev/zero bs=1M count=1024 2>/dev/null; echo; echo end")
	h.Timeout = 3 * patience
	s := play(t, 0, h)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.send(t, event("1"))
	r := <-s.runs // a gigabyte through a pipe takes long on a busy machine; the hook has a timeout
	runtime.ReadMemStats(&after)
	if r.Err != "" || !strings.HasSuffix(r.Output, "\nend\n") || len(r.Output) > 70<<10 || !strings.Contains(r.Output[:100], "bytes before this are left out") {
		t.Errorf("%d bytes are kept, %.60q (%s)", len(r.Output), r.Output, r.Err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

func TestAHookThatNeedsTooMuchMemory(t *testing.T) {
	h := onAny("eats", `head -c 600000000 /dev/zero | tail -c 600000000 >/dev/null`)
	h.Timeout = 10 * time.Minute // a busy machine gives hooks little of its processors
	s := play(t, 0, h)
	s.send(t, event("1"))
	if r := <-s.runs; !strings.Contains(r.Err, "more than 256 MiB of memory") {
		t.Errorf("%+v", r)
	}
}

func TestAHookThatCannotStart(t *testing.T) {
	h := onAny("none", "")
	h.Argv = []string{"/no/such/program"}
	s := play(t, 0, h)
	s.send(t, event("1"))
	if r := s.next(t); r.Exit != 126 || !strings.Contains(r.Output, "cannot run /no/such/program: no such file") || r.Err == "" {
		t.Errorf("%+v", r)
	}
}

func TestQueues(t *testing.T) {
	var beside, most [2]atomic.Int32
	chore := func(i int, name, queue string) hooks.Hook {
		return hooks.Hook{Name: name, Events: []hooks.Match{{Type: "*"}}, Timeout: patience, Queue: queue, Do: func(ctx context.Context) error {
			most[i].Store(max(most[i].Load(), beside[i].Add(1)))
			defer beside[i].Add(-1)
			for range 10 { // the other queue's runs beside this one, sooner or later
				time.Sleep(time.Millisecond)
			}
			return nil
		}}
	}
	both := make(chan struct{})
	meet := func(name, queue string) hooks.Hook {
		return hooks.Hook{Name: name, Events: []hooks.Match{{Type: "meet"}}, Timeout: patience, Queue: queue, Do: func(ctx context.Context) error {
			select {
			case both <- struct{}{}:
			case <-both:
			case <-ctx.Done():
				return errors.New("alone")
			}
			return nil
		}}
	}
	s := play(t, 0, chore(0, "a", "one"), chore(0, "b", "one"), chore(0, "c", "one"), meet("m1", "two"), meet("m2", "three"))
	for i := range 3 {
		s.send(t, event(fmt.Sprint(i)))
	}
	e := event("x")
	e.ObjectType = "meet"
	s.send(t, e)
	for range 3*3 + 3 + 2 {
		if r := s.next(t); r.Err != "" {
			t.Errorf("%+v", r)
		}
	}
	if got := most[0].Load(); got != 1 {
		t.Errorf("%d of one queue ran at a time", got)
	}
}

// Events of one object are one run, and a queue is bounded.
func TestAStormOfEvents(t *testing.T) {
	begun, let := make(chan struct{}, 1000), make(chan struct{})
	var once sync.Once
	h := hooks.Hook{Name: "slow", Events: []hooks.Match{{Type: "*"}}, Timeout: patience, Queue: "q", Do: func(context.Context) error {
		begun <- struct{}{}
		<-let
		return nil
	}}
	s := play(t, time.Minute, h)
	defer once.Do(func() { close(let) })
	s.send(t, event("same"))
	<-begun
	for range 20_000 {
		s.send(t, event("same"))
	}
	for i := range 1000 {
		s.send(t, event(fmt.Sprint(i)))
	}
	wait(t, "the last event", func() bool { return s.State().Dropped >= 1000-255 })
	st := s.State()
	if st.Dropped != 1000-255 || len(st.Queues) != 1 || st.Queues[0].Waiting != 255 {
		t.Errorf("%d are dropped, %d wait", st.Dropped, st.Queues[0].Waiting)
	}
	once.Do(func() { close(let) })
	counts := map[string]int{}
	events := uint64(0)
	for range 2 + 255 {
		r := s.next(t)
		counts[r.Event.ObjectID]++
		if r.Event.ObjectID == "same" {
			events += r.Event.Count
		}
	}
	if counts["same"] != 2 || events != 2*20_001 || len(counts) != 256 {
		t.Errorf("%d runs for one object, of %d events; %d objects", counts["same"], events, len(counts))
	}
}

func TestChores(t *testing.T) {
	do := func(name string, f func(ctx context.Context) error) hooks.Hook {
		return hooks.Hook{Name: name, Events: []hooks.Match{{ID: name}}, Timeout: 50 * time.Millisecond, Queue: "chores", Do: f}
	}
	s := play(t, 0,
		do("well", func(context.Context) error { return nil }), do("fails", func(context.Context) error { return errors.New("no luck") }),
		do("panics", func(context.Context) error { panic("out of order") }), do("hangs", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }))
	for name, want := range map[string]string{"well": "", "fails": "no luck", "panics": "out of order", "hangs": "killed after its timeout"} {
		s.send(t, event(name))
		if r := s.next(t); r.Hook != name || !strings.Contains(r.Err, want) || (want == "") != (r.Err == "") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What is due when the node stops is run; what doesn't end in time is killed, and nothing new begins.
func TestTheStopIsOrdered(t *testing.T) {
	mark := fmt.Sprint(4e6 + os.Getpid())
	hang := onAny("hang", "echo begun; sleep "+mark)
	hang.Queue, hang.Events = "other", []hooks.Match{{ID: "1"}}
	s := play(t, 8*time.Second, onAny("quick", "sleep 0.2; echo quick"), hang)
	for i := range 2 {
		s.send(t, event(fmt.Sprint(i)))
	}
	wait(t, "the hanging hook", func() bool { return len(processes(t, "sleep\x00"+mark)) == 1 })
	began := time.Now()
	s.end(t)
	took := time.Since(began)
	quick, killed := 0, 0
	for len(s.runs) > 0 {
		switch r := s.next(t); {
		case r.Output == "quick\n" && r.Err == "":
			quick++
		case r.Hook == "hang" && strings.Contains(r.Err, "because the node stops"):
			killed++
		default:
			t.Errorf("%+v", r)
		}
	}
	if quick != 2 || killed != 1 || took < 7*time.Second || len(processes(t, mark)) > 0 {
		t.Errorf("%d ran, %d were killed, in %s; %v are left", quick, killed, took, processes(t, mark))
	}
	if g, err := cgroup.Beside(cgroup.Name("hooks", s.runDir)); err != nil || g.There() {
		t.Errorf("the control group is left (%v)", err)
	}
}

// What an earlier croftd's hooks left, because that was killed, is ended first.
func TestLeftoversOfAnEarlierLifeAreEnded(t *testing.T) {
	s := &stage{events: make(chan hooks.Event), runs: make(chan hooks.Run, 10), ended: make(chan error, 1), runDir: t.TempDir()}
	g, err := cgroup.Beside(cgroup.Name("hooks", s.runDir))
	must(t, err)
	must(t, g.Make())
	inner, err := cgroup.Beside(cgroup.Name("hooks", s.runDir) + "/7")
	must(t, err)
	old := exec.Command("sleep", "600")
	must(t, old.Start())
	if failures := inner.Enter(old.Process.Pid); len(failures) > 0 {
		t.Error(failures)
	}
	s.open(t, 0, []hooks.Hook{onAny("a", "echo a")})
	s.send(t, event("1"))
	if r := s.next(t); r.Output != "a\n" {
		t.Errorf("%+v", r)
	}
	if err := old.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the earlier hook: %v", err)
	}
}

func TestHooksAreReplaced(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	old := onAny("old", "")
	old.Argv, old.Do = nil, func(context.Context) error { begun <- struct{}{}; <-let; return nil }
	s := play(t, time.Minute, old)
	s.send(t, event("1"))
	<-begun
	s.send(t, event("2")) // waits, and is dropped with its hook
	fresh := onAny("fresh", "echo fresh")
	fresh.Queue = "another"
	must(t, s.Set([]hooks.Hook{fresh}))
	close(let)
	if r := s.next(t); r.Hook != "old" || r.Event.ObjectID != "1" {
		t.Errorf("%+v", r)
	}
	s.send(t, event("3"))
	if r := s.next(t); r.Hook != "fresh" || r.Output != "fresh\n" {
		t.Errorf("%+v", r)
	}
	wait(t, "the end of the queue that is gone", func() bool { return len(s.State().Queues) == 1 })
	if st := s.State(); len(st.Hooks) != 1 || st.Queues[0].Name != "hooks another" || len(s.runs) > 0 {
		t.Errorf("%+v", st)
	}
	for _, wrong := range [][]hooks.Hook{{fresh, fresh}, {{Name: "x", Queue: "q", Timeout: 1}}, {{Argv: []string{"/x"}, Queue: "q", Timeout: 1}}} {
		if err := s.Set(wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	if st := s.State(); len(st.Hooks) != 1 {
		t.Errorf("wrong hooks replaced the others: %+v", st)
	}
}
