package hooks

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Limits of the processes of one run, and of all hooks together.
const (
	runMemory = 256 << 20
	allMemory = 512 << 20
	runPIDs   = 256
	allPIDs   = 1024
	// ioWeight and cpuWeight are low: everything else on the node goes first.
	ioWeight  = 10
	cpuWeight = 10
)

const (
	// endTime is how long killed processes may take to end, drainTime how long what they wrote is still read.
	endTime   = 10 * time.Second
	drainTime = time.Second
)

// searchPath is the PATH of hooks.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// mostGroups bounds the control groups that an earlier process may have left with processes that can't be killed.
const mostGroups = 8

// programs runs hooks' programs, each in a control group of its own.
type programs struct {
	// command is this program, as Exec's process.
	command []string
	// runDir is the node's; the names of the control groups of all hooks come from it.
	runDir string
	log    zerolog.Logger
	// beside finds control groups; tests replace it.
	beside func(name string) (cgroup.Group, error)
	runs   atomic.Uint64

	mu sync.Mutex
	// group is the name of the control group of all hooks, empty while there is none that can be used; made is whether it is
	// made, warned whether it is logged that it can't be.
	group        string
	made, warned bool
}

func newPrograms(c Config) *programs {
	return &programs{command: c.Command, runDir: c.RunDir, log: c.Log, beside: cgroup.Beside}
}

// Groups are the names of the control groups that the hooks of a node with that run folder may be in: the first, and those that are
// used while processes that can't be killed are in the others.
func Groups(runDir string) []string {
	names := []string{cgroup.Name("hooks", runDir)}
	for n := 1; n < mostGroups; n++ {
		names = append(names, cgroup.Name("hooks", runDir+"#"+strconv.Itoa(n)))
	}
	return names
}

// open ends what an earlier process has left, and chooses the name of the group of all hooks: one that isn't there. It makes
// nothing. Processes that can't be killed are left behind in their group. Where groups can't be found the runs say so.
func (p *programs) open(ctx context.Context) {
	ending, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	names, stuck := Groups(p.runDir), [mostGroups]error{}
	var ends sync.WaitGroup
	for n, name := range names {
		if g, err := p.beside(name); err == nil && g.There() {
			ends.Go(func() {
				supervise.Do(p.log, "end of earlier hooks", func() { stuck[n] = g.End(ending) })
			})
		}
	}
	ends.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group, p.made = "", false
	for n, err := range stuck {
		if err != nil {
			p.log.Warn().Err(err).Msg("cannot end the hooks of an earlier process: they are left behind")
		} else if p.group == "" {
			p.group = names[n]
		}
	}
}

// ready makes the group of all hooks before the first run, and returns the one of a run. Whether a process can be held in it
// is seen when that is put there.
func (p *programs) ready() (cgroup.Group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == "" {
		return cgroup.Group{}, errors.New("cannot hold the hook's processes: processes of earlier hooks that can't be ended are in all control groups of hooks")
	}
	all, err := p.beside(p.group)
	if err == nil && len(all.Folders()) == 0 {
		err = errors.New("this machine has none")
	}
	if err != nil {
		return cgroup.Group{}, errors.Wrap(err, "cannot hold the hook's processes in a control group")
	}
	if !p.made {
		p.make(all)
	}
	return p.beside(p.group + "/" + strconv.FormatUint(p.runs.Add(1), 10))
}

// make makes the group of all hooks and limits it.
func (p *programs) make(all cgroup.Group) {
	if err := all.Make(); err != nil {
		if !p.warned {
			p.log.Warn().Err(err).Msg("cannot make the control group of hooks in each hierarchy: tried again at each run")
		}
		p.warned = true
		return
	}
	p.made = true
	if missing := all.Limit(cgroup.Limits{Memory: allMemory, PIDs: allPIDs, IOWeight: ioWeight, CPUWeight: cpuWeight}); len(missing) > 0 {
		p.log.Warn().Strs("missing", missing).Msg("some limits of hooks can't be set on this machine")
	}
}

// close removes the group.
func (p *programs) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g, err := p.beside(p.group); p.group != "" && err == nil {
		g.Remove()
	}
	p.made = false
}

// run runs a hook's program until it has ended, with all processes that it started. It kills them when ctx is done.
func (p *programs) run(ctx context.Context, h Hook, e *Event) (exit int, text string, err error) {
	g, err := p.ready()
	if err != nil {
		return -1, "", err
	}
	started, err := p.start(h, e)
	if err != nil {
		return -1, "", err
	}
	// One hierarchy is enough to find all of its processes.
	if failures := g.Enter(started.cmd.Process.Pid); len(failures) > 0 && len(failures) == len(g.Folders()) {
		err = errors.Wrap(failures[0], "cannot hold the hook's processes in a control group")
	} else {
		g.Limit(cgroup.Limits{Memory: runMemory, PIDs: runPIDs, IOWeight: ioWeight, CPUWeight: cpuWeight})
		started.release()
	}
	if err == nil {
		err = started.wait(ctx)
	}
	killed := g.Events().OOMKills
	state, ended := started.end(g)
	exit, text = state.ExitCode(), started.out.text()
	switch {
	case err != nil:
		return -1, text, err
	case ended != nil:
		return exit, text, ended
	case killed > 0:
		return exit, text, errors.Errorf("cannot give the hook more than %d MiB of memory", runMemory>>20)
	case exit != 0:
		return exit, text, errors.Errorf("the program ended with %s", state)
	}
	return 0, text, nil
}

// process is a started program.
type process struct {
	cmd *exec.Cmd
	// gate lets the program begin when a byte is written to it.
	gate *os.File
	// reader is the end of its outputs.
	reader *os.File
	out    *output
	copied chan struct{}
	log    zerolog.Logger
}

// start starts the process, which waits for release.
func (p *programs) start(h Hook, e *Event) (*process, error) {
	theirs, gate, err := os.Pipe()
	if err != nil {
		return nil, errors.Wrap(err, "cannot start the hook")
	}
	defer theirs.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		_ = gate.Close()
		return nil, errors.Wrap(err, "cannot start the hook")
	}
	defer writer.Close()
	cmd := exec.Command(p.command[0], append(append([]string{}, p.command[1:]...), h.Argv...)...) //nolint:noctx // its control group is ended with it
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = writer, writer, []*os.File{theirs}
	cmd.Env, cmd.Dir = environment(e), "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = gate.Close()
		_ = reader.Close()
		return nil, errors.Wrap(err, "cannot start the hook")
	}
	started := &process{cmd: cmd, gate: gate, reader: reader, out: &output{}, copied: make(chan struct{}), log: p.log}
	go supervise.Do(p.log, "output of hook "+h.Name, func() {
		defer close(started.copied)
		_, _ = io.Copy(struct{ io.Writer }{started.out}, reader) // ends when reader does
	})
	return started, nil
}

// environment is the whole environment of a hook.
func environment(e *Event) []string {
	env := []string{"PATH=" + searchPath}
	if e == nil {
		return env
	}
	for _, each := range []struct{ name, value string }{
		{"TIME", e.Time.UTC().Format(time.RFC3339Nano)}, {"TYPE", string(e.Kind)}, {"REASON", e.Reason}, {"OPERATION", e.Operation},
		{"OBJECT_TYPE", e.ObjectType}, {"OBJECT_ID", e.ObjectID}, {"MESSAGE", e.Message}, {"COUNT", fmt.Sprint(e.Count)},
	} {
		env = append(env, "CROFT_EVENT_"+each.name+"="+line(each.value))
	}
	return env
}

// release lets the program begin.
func (s *process) release() { _, _ = s.gate.Write([]byte{1}) } // one that is gone already is seen by wait

// wait returns once the program has ended, which isn't reaped yet: its process group can't be another's.
func (s *process) wait(ctx context.Context) error {
	ended := make(chan error, 1)
	go supervise.Do(s.log, "wait for a hook", func() {
		for {
			err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				ended <- err
				return
			}
		}
	})
	select {
	case err := <-ended:
		return errors.Wrap(err, "cannot wait for the hook")
	case <-ctx.Done():
	}
	_ = unix.Kill(-s.cmd.Process.Pid, unix.SIGKILL)
	select {
	case err := <-ended:
		_ = err // it was killed
	case <-time.After(endTime): // end waits for it
	}
	return context.Cause(ctx)
}

// end kills what is left of the program, in its process group and its control group, and returns its state.
func (s *process) end(g cgroup.Group) (state *os.ProcessState, err error) {
	_ = s.gate.Close()
	_ = unix.Kill(-s.cmd.Process.Pid, unix.SIGKILL)
	ending, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	err = g.End(ending)
	_ = s.cmd.Wait()
	select {
	case <-s.copied:
	case <-time.After(drainTime): // something outside of the group has the pipe
		_ = s.reader.SetReadDeadline(time.Unix(1, 0))
		<-s.copied
	}
	_ = s.reader.Close()
	return s.cmd.ProcessState, err
}
