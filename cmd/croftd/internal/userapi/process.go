package userapi

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/supervise"
)

// hostID is the user ID of the door's process on the node: the one before those of processes that
// unpack images, and used by no other process. In its user namespace it is nobody.
const (
	hostID = 0x6ffeffff
	nobody = 65534
)

// process runs the door's process once, with its attendant, until it ends or ctx is done.
func (d *Door) process(ctx context.Context) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	// The kernel kills the process when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, control, output, err := d.start(ctx)
	if err != nil {
		return err
	}
	a := &attendant{door: d, control: control, kill: kill, beats: make(chan uint32, 1)}
	a.all.Go(func() { a.end(supervise.Guard(d.Log, "door control", func() error { return a.listen(ctx) })) })
	a.all.Go(func() { a.end(supervise.Guard(d.Log, "door beat", func() error { return a.watch(ctx) })) })
	a.all.Go(func() { a.end(supervise.Guard(d.Log, "door tunnel", func() error { return a.tunnel(ctx) })) })
	stop := context.AfterFunc(ctx, func() { _ = control.Close() })
	defer stop()
	ended := cmd.Wait()
	kill()
	a.all.Wait()
	why := a.reason()
	if ended == nil {
		ended = errors.New("it ended by itself")
	}
	if why != nil {
		return errors.Wrapf(why, "the door's process was ended (%s)", confine.Printable(ended.Error()))
	}
	return errors.Errorf("the door's process ended: %s", confine.Printable(ended.Error()+": "+output.String()))
}

// start starts the process and sends its settings.
func (d *Door) start(ctx context.Context) (*exec.Cmd, *wire.Control, *confine.Output, error) {
	ours, theirs, err := wire.Pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, nil, nil, err
	}
	defer theirs.Close()
	control := wire.ControlOf(ours)
	output := &confine.Output{}
	cmd, err := d.command(ctx, theirs, output)
	if err != nil {
		_ = control.Close()
		return nil, nil, nil, err
	}
	if d.Confine != nil {
		d.Confine(cmd.Process.Pid)
	}
	setup, err := json.Marshal(d.setup())
	if err == nil {
		var listening *os.File
		if listening, err = d.listener.File(); err == nil {
			err = control.Send(wire.Message{Kind: wire.Settings, Body: setup, File: listening})
			listening.Close()
		}
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = control.Close()
		return nil, nil, nil, errors.Wrap(err, "cannot configure the door's process")
	}
	return cmd, control, output, nil
}

// command starts the program with as few rights as the node allows: where user namespaces are
// unavailable, with the other namespaces or none, and still under the system call filter.
func (d *Door) command(ctx context.Context, control *os.File, output *confine.Output) (*exec.Cmd, error) {
	var first error
	for _, attr := range ways() {
		cmd := exec.CommandContext(ctx, d.Command[0], d.Command[1:]...)
		cmd.Stderr, cmd.ExtraFiles = output, []*os.File{control}
		cmd.Env, cmd.Dir = []string{"GOTRACEBACK=single"}, "/"
		cmd.WaitDelay = 5 * time.Second
		cmd.SysProcAttr = attr
		err := cmd.Start()
		if err == nil {
			if first != nil && d.lesser.CompareAndSwap(false, true) {
				d.Log.Warn().Err(first).Msg("the door's process has no user namespace of its own")
			}
			return cmd, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, errors.Wrap(first, "cannot start the door's process")
}

// ways are the ways in which root may start the process, the best first.
func ways() []*syscall.SysProcAttr {
	const apart = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	ids := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: hostID, Size: 1}}
	inside, outside := &syscall.Credential{Uid: nobody, Gid: nobody}, &syscall.Credential{Uid: hostID, Gid: hostID}
	return []*syscall.SysProcAttr{
		{
			Cloneflags: unix.CLONE_NEWUSER | apart, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
			Credential: inside, Setsid: true, Pdeathsig: unix.SIGKILL,
		},
		{Cloneflags: apart, Credential: outside, Setsid: true, Pdeathsig: unix.SIGKILL},
		{Credential: outside, Setsid: true, Pdeathsig: unix.SIGKILL},
	}
}
