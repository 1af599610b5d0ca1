package database

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Memory bounds the process's memory, Time its processor time in seconds: the largest flist takes some 80 MiB and
// a second.
var (
	Memory = limit.Limit{Name: "flist-memory", Per: "flist", Each: 192 << 20, Unit: limit.Bytes}
	Time   = limit.Limit{Name: "flist-seconds", Per: "flist", Each: 60}
)

const (
	// longest is how long a process may take by the clock; it waits for a busy disk and busy processors.
	longest = 15 * time.Minute
	// hostID is the user ID of the process on the node: the one before that of the door's process.
	hostID = 0x6ffefffe
	// nobody is its user ID in its namespace.
	nobody = 65534
)

// Reader starts the processes that read databases.
type Reader struct {
	// Command is a command that ends up in Serve.
	Command []string
	// Confine is called with a process before its answer is read; may be nil.
	Confine func(pid int)
}

// Read reads the flist in an open file. node.Refused when it can't be used, Transient when ctx has ended or the process
// was killed.
func (r Reader) Read(ctx context.Context, file *os.File) (*flist.Flist, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > flist.Bytes.Each {
		flist.Bytes.Reached()
		return nil, flist.Refused("it has %d bytes, at most %d are allowed", info.Size(), flist.Bytes.Each)
	}
	ctx, kill := context.WithTimeout(ctx, longest)
	defer kill()
	// The process is ended with the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var output confine.Output
	cmd, answers, err := r.start(ctx, file, &output)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot start the process that reads flists: %w", err)
	}
	if r.Confine != nil {
		r.Confine(cmd.Process.Pid)
	}
	list, end, err := receive(answers)
	answers.Close()
	if errors.Is(err, errNonsense) {
		err = flist.Refused("the process that reads its database answers nonsense")
	}
	if node.KindOf(err) == node.Refused {
		kill()
		_ = cmd.Wait()
		return nil, err
	}
	if end.kind == kindWrong || end.kind == kindFailed {
		kill() // it has nothing more to say
	}
	// An answer that breaks off is explained by how the process ends.
	ended := cmd.Wait()
	switch {
	case end.kind == kindWrong:
		return nil, flist.Refused("%s", confine.Printable(end.text))
	case end.kind == kindFailed:
		return nil, node.Errorf(node.Internal, "cannot read a flist: %s", confine.Printable(end.text))
	case end.kind == kindEnd && ended == nil:
		return list, nil
	}
	return nil, verdict(ctx, cmd.ProcessState, output.String())
}

// start starts a process. It gets the file for reading only, whatever it is open for here.
func (r Reader) start(ctx context.Context, file *os.File, output *confine.Output) (*exec.Cmd, *os.File, error) {
	in, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, r.Command[0], r.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, output
	cmd.Env, cmd.Dir = append(confine.RaceOptions(), "GOTRACEBACK=single"), "/"
	cmd.WaitDelay = longest
	ids := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: hostID, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Setsid: true, Pdeathsig: unix.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		answers.Close()
		return nil, nil, err
	}
	return cmd, answers, nil
}

// verdict is the error of a process without a whole answer.
func verdict(ctx context.Context, state *os.ProcessState, output string) error {
	status, _ := state.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == unix.SIGKILL
	switch took := state.SystemTime() + state.UserTime(); {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return node.Errorf(node.Transient, "cannot read a flist: %w", ctx.Err())
	// The kernel counts by its ticks when it ends a process for it, which are a guess.
	case killed && 2*took >= time.Duration(Time.Each)*time.Second:
		Time.Reached()
		return flist.Refused("its database takes more than %d seconds to read", Time.Each)
	case strings.Contains(output, "out of memory") || strings.Contains(output, "cannot allocate memory"):
		Memory.Reached()
		return flist.Refused("its database takes more than %d bytes of memory to read", Memory.Each)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return flist.Refused("its database takes more than %s to read", longest)
	case killed:
		return node.Errorf(node.Transient, "cannot read a flist: the process that does was killed")
	case state.Success():
		return flist.Refused("the process that reads its database answers nonsense")
	}
	return flist.Refused("the process that reads its database failed: %s", confine.Printable(state.String()+": "+output))
}
