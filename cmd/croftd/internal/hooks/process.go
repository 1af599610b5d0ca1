package hooks

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
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

// programs runs hooks' programs, each in a control group of its own.
type programs struct {
	// command is this program, as Exec's process.
	command []string
	// group is the name of the control group of all hooks.
	group string
	log   zerolog.Logger
	runs  atomic.Uint64
}

// open makes the group of all hooks, after it has ended what an earlier process has left there.
func (p *programs) open() error {
	g, err := cgroup.Beside(p.group)
	if err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := g.End(ending); err != nil {
		return errors.Wrap(err, "cannot end the hooks of an earlier process")
	}
	if err := g.Make(); err != nil {
		return errors.Wrap(err, "cannot make the control group of hooks")
	}
	if missing := g.Limit(cgroup.Limits{Memory: allMemory, PIDs: allPIDs, IOWeight: ioWeight, CPUWeight: cpuWeight}); len(missing) > 0 {
		p.log.Warn().Strs("missing", missing).Msg("some limits of hooks can't be set on this machine")
	}
	return nil
}

// close removes the group.
func (p *programs) close() {
	if g, err := cgroup.Beside(p.group); err == nil {
		g.Remove()
	}
}

// run runs a hook's program until it has ended, with all processes that it started. It kills them when ctx is done.
func (p *programs) run(ctx context.Context, h Hook, e *Event) (exit int, text string, err error) {
	g, err := cgroup.Beside(p.group + "/" + strconv.FormatUint(p.runs.Add(1), 10))
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
