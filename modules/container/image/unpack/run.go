package unpack

import (
	"context"
	"encoding/json"
	"io"
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
	"github.com/croft-edge/croft/pkg/node"
)

// Layer is a packed layer, and where it is unpacked.
type Layer struct {
	// Packed are its bytes. Those of a layer of many files are read twice: first to count these.
	Packed Packed
	// Upper is its folder, empty, Below are those of the layers below it, topmost
	// first.
	Upper string
	Below []string
	// Confine is called with the process before it gets anything to read; may be nil.
	Confine func(pid int)
	Bounds
}

// Packed are the bytes of a packed layer.
type Packed interface {
	io.ReaderAt
	// Size is how many there are.
	Size() int64
}

// Run unpacks a layer in a process that command starts, which must end up in Serve.
// The folder is written to the disk when it returns without an error. Errors of
// kind Invalid and Refused are the layer's fault; Transient when ctx has ended.
func Run(ctx context.Context, command []string, l Layer) (Result, error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	// The process is ended with the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := start(ctx, command)
	if err != nil {
		return Result{}, err
	}
	defer p.close()
	if l.Confine != nil {
		l.Confine(p.cmd.Process.Pid)
	}
	mounts, err := l.mounts(p.cmd.Process.Pid)
	if err == nil {
		err = p.send(order{Bounds: l.Bounds, Packed: l.Packed.Size()}, mounts)
	}
	if err != nil {
		kill()
		_ = p.cmd.Wait()
		return Result{}, err
	}
	fed := make(chan error, 1)
	go func() {
		err := p.feed(l.Packed)
		if err != nil {
			kill()
		}
		fed <- err
	}()
	a, answered := p.answer()
	ended := p.cmd.Wait()
	p.layer.Close()
	if err := <-fed; err != nil {
		return Result{}, err
	}
	if err := p.verdict(ctx, ended, answered); err != nil {
		return Result{}, err
	}
	if err := a.err(); err != nil {
		if a.Limit {
			Opaque.Reached()
		}
		return Result{}, err
	}
	if a.Bytes < l.Bytes || a.Bytes > l.MostBytes || a.Files < l.Files || a.Files > l.MostFiles {
		return Result{}, refused("the process that unpacked a layer of it answers nonsense")
	}
	return a.Result, finish(l.Upper, a.Opaque)
}

// process is the parent's side of a process that unpacks.
type process struct {
	cmd     *exec.Cmd
	control *os.File
	layer   *os.File
	answers *os.File
	output  confine.Output
}

// start starts a process that waits for its order.
func start(ctx context.Context, command []string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	cannot := func(err error) (*process, error) {
		p.close()
		return nil, node.Errorf(node.Internal, "cannot start the process that unpacks: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return cannot(err)
	}
	p.control = os.NewFile(uintptr(pair[0]), "control")
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	in, layer, err := os.Pipe()
	if err != nil {
		return cannot(err)
	}
	defer in.Close()
	p.layer = layer
	answers, out, err := os.Pipe()
	if err != nil {
		return cannot(err)
	}
	defer out.Close()
	p.answers = answers
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = in, out, &p.output, []*os.File{theirs}
	p.cmd.Env, p.cmd.Dir = append(confine.RaceOptions(), "GOTRACEBACK=single"), "/"
	p.cmd.WaitDelay = longest
	p.cmd.SysProcAttr = nobodyOnTheNode()
	if err := startOnHalf(p.cmd); err != nil {
		return cannot(err)
	}
	return p, nil
}

// nobodyOnTheNode is a process in namespaces of its own with few capabilities in
// them. It has none of mounts, because it would keep the node's from ending.
func nobodyOnTheNode() *syscall.SysProcAttr {
	ids := []syscall.SysProcIDMap{{HostID: FirstID, Size: IDs}}
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential:  &syscall.Credential{Uid: nobody, Gid: nobody},
		AmbientCaps: []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETFCAP, unix.CAP_SYS_CHROOT},
		Setsid:      true, Pdeathsig: unix.SIGKILL,
	}
}

// mounts are the layer's folder and those below it, with their IDs as the process
// has them. They are nowhere to be seen.
func (l Layer) mounts(pid int) ([]*os.File, error) {
	userns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot open the user namespace of the process that unpacks: %w", err)
	}
	defer userns.Close()
	var out []*os.File
	for i, folder := range append([]string{l.Upper}, l.Below...) {
		fd, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			out = append(out, os.NewFile(uintptr(fd), folder))
			a := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC, Userns_fd: uint64(userns.Fd()), Propagation: unix.MS_PRIVATE}
			if i > 0 {
				a.Attr_set |= unix.MOUNT_ATTR_RDONLY
			}
			err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &a)
		}
		if err != nil {
			closeAll(out)
			return nil, node.Errorf(node.Internal, "cannot map the IDs of a layer's folder: %w", err)
		}
	}
	return out, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// send sends the process its order and folders, and closes them here. A process that has ended before is no
// error: its end says why.
func (p *process) send(o order, folders []*os.File) error {
	defer closeAll(folders)
	raw, err := json.Marshal(o)
	if err != nil {
		return node.Errorf(node.Internal, "cannot send an unpack request: %w", err)
	}
	fds := make([]int, len(folders))
	for i, f := range folders {
		fds[i] = int(f.Fd())
	}
	err = unix.Sendmsg(int(p.control.Fd()), raw, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		return node.Errorf(node.Internal, "cannot send an unpack request: %w", err)
	}
	return p.control.Close()
}

// feed writes the layer to the process, as often as it may read it. A process that stops reading is no error.
func (p *process) feed(packed Packed) error {
	defer p.layer.Close()
	buf := make([]byte, readAt)
	for range reads {
		from := io.NewSectionReader(packed, 0, packed.Size())
		for {
			n, err := from.Read(buf)
			if _, broken := p.layer.Write(buf[:n]); broken != nil {
				return nil //nolint:nilerr // see above
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return node.Errorf(node.Transient, "cannot read a layer: %w", err)
			}
		}
	}
	return nil
}

// answer reads the answer of the process, until it has ended.
func (p *process) answer() (a answer, ok bool) {
	raw, err := io.ReadAll(io.LimitReader(p.answers, mostAnswer))
	p.answers.Close()
	return a, err == nil && json.Unmarshal(raw, &a) == nil
}

// verdict is the error of a process without a valid answer.
func (p *process) verdict(ctx context.Context, ended error, answered bool) error {
	state := p.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	took := state.SystemTime() + state.UserTime()
	switch {
	case ended == nil && answered:
		return nil
	case ctx.Err() != nil:
		return node.Errorf(node.Transient, "cannot unpack a layer: %w", ctx.Err())
	// The kernel counts by its ticks when it ends a process for it, which are a guess.
	case status.Signaled() && status.Signal() == unix.SIGKILL && 2*took >= time.Duration(Time.Each)*time.Second:
		Time.Reached()
		return refused("a layer of it takes more than %d seconds to unpack", Time.Each)
	case strings.Contains(p.output.String(), "out of memory") || strings.Contains(p.output.String(), "cannot allocate memory"):
		Memory.Reached()
		return refused("a layer of it takes more than %d bytes of memory to unpack", Memory.Each)
	case status.Signaled() && status.Signal() == unix.SIGKILL:
		return node.Errorf(node.Transient, "cannot unpack a layer: the process that did was killed")
	case ended == nil:
		return refused("the process that unpacked a layer of it answers nonsense")
	}
	return refused("the process that unpacked a layer of it failed: %s", confine.Printable(state.String()+": "+p.output.String()))
}

// err is the error that a process has answered.
func (a answer) err() error {
	kind, ok := kinds()[a.Kind]
	switch {
	case a.Kind == "":
		return nil
	case !ok:
		return refused("the process that unpacked a layer of it answers nonsense")
	}
	return node.Errorf(kind, "%s", confine.Printable(a.Error))
}

func (p *process) close() {
	closeAll([]*os.File{p.control, p.layer, p.answers})
}
