// Package launch turns a process of croft into a virtual machine's QEMU: the agent's side starts it with open files and an
// order, the process's side (Become) enters its control group, starts the VM's discarder, gives up root, and executes QEMU. From its
// start on the process doesn't depend on the agent.
package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/discard"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/node"
)

// Order says what a process becomes.
type Order struct {
	// Files is the VM's folder, Attempt the number of the start.
	Files   machine.Files `json:"files"`
	Attempt uint64        `json:"attempt"`
	// Program is QEMU, Arguments its command line.
	Program   string   `json:"program"`
	Arguments []string `json:"arguments"`
	// UID is the user and the group that it runs as, Groups its other groups.
	UID    uint32   `json:"uid"`
	Groups []uint32 `json:"groups"`
	// Cgroup is the path of its control group, Limits are that group's.
	Cgroup string        `json:"cgroup"`
	Limits cgroup.Limits `json:"limits"`
	// Open is how many files are handed over; Start sets it.
	Open     int      `json:"open"`
	Discards Discards `json:"discards"`
}

// Discards say how a guest's discards are passed on (package discard). Without a command the guest is offered none.
type Discards struct {
	// Command starts a program that calls discard.Serve; UID is the user and the group that it runs as.
	Command []string `json:"command"`
	UID     uint32   `json:"uid"`
	// Disks are the numbers of the disks that take discards. Arguments is QEMU's command line that offers them, in place of the order's.
	Disks     []int    `json:"disks"`
	Arguments []string `json:"arguments"`
}

// orderDescriptor is where the process finds its order; firstFile is the number of the first file handed over.
const (
	orderDescriptor = 3
	firstFile       = 4
)

// Files are the open files of a machine, with the numbers that its process has them under.
type Files struct{ list []*os.File }

// Add adds a file, which Close closes, and returns its number.
func (f *Files) Add(file *os.File) int {
	f.list = append(f.list, file)
	return firstFile + len(f.list) - 1
}

// Close closes the agent's copies.
func (f *Files) Close() {
	for _, file := range f.list {
		_ = file.Close()
	}
}

// Start starts command, a program that calls Become, with an order and files. It doesn't wait until QEMU runs: ended
// gets the outcome of the process. What the process and QEMU say goes to console.
func Start(command []string, o Order, files *Files, console *os.File) (ended <-chan error, err error) {
	o.Open = len(files.list)
	order, err := orderFile(o)
	if err != nil {
		return nil, err
	}
	defer order.Close()
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it outlives who starts it
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = append([]*os.File{order}, files.list...)
	// Its devices are open: it needs no network, and what is shared with the node's other processes is none of its business.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC}
	if err := cmd.Start(); err != nil {
		return nil, node.Errorf(node.Transient, "cannot start a VM: %w", err)
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	return died, nil
}

// orderFile is an open file in memory with the order.
func orderFile(o Order) (*os.File, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, errors.Wrap(err, "cannot encode the order of a VM")
	}
	fd, err := unix.MemfdCreate("croft-vm-order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, errors.Wrap(err, "cannot write the order of a VM")
	}
	file := os.NewFile(uintptr(fd), "order")
	if _, err = file.Write(raw); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, errors.Wrap(err, "cannot write the order of a VM")
	}
	return file, nil
}

// Become makes this process the VM of the order that it was started with. It returns only an error.
func Become() error {
	// What confines a single thread must confine the one that executes QEMU.
	runtime.LockOSThread()
	file := os.NewFile(orderDescriptor, "order")
	var o Order
	if err := json.NewDecoder(file).Decode(&o); err != nil {
		return errors.Wrap(err, "cannot read the order of a VM")
	}
	_ = file.Close()
	lock, err := o.Files.Claim(o.Attempt)
	if err != nil {
		return err
	}
	if err := confineGroup(o); err != nil {
		return err
	}
	discarder, err := startDiscarder(o)
	if err != nil {
		return err
	}
	if err := giveUp(o); err != nil {
		return err
	}
	arguments := o.Arguments
	if discarder != nil {
		if err := discarder.Supervise(o.Discards.Disks); err != nil {
			noDiscards(err)
		} else {
			arguments = o.Discards.Arguments
		}
	}
	// QEMU inherits the lock, which nothing else may have.
	if _, err := unix.FcntlInt(uintptr(lock.Fd()), unix.F_SETFD, 0); err != nil {
		return errors.Wrap(err, "cannot keep the VM's lock")
	}
	err = unix.Exec(o.Program, append([]string{"qemu-system-x86_64"}, arguments...), []string{"PATH=/usr/bin:/bin", "TMPDIR=/nonexistent"})
	return errors.Wrapf(err, "cannot execute %s", o.Program)
}

// startDiscarder starts the discarder of a VM that can have one; it inherits none of the VM's files. While this process is root, and
// before it has a filter of system calls that its children have too.
func startDiscarder(o Order) (*discard.Discarder, error) {
	switch {
	case len(o.Discards.Command) == 0:
		return nil, nil
	case len(o.Discards.Disks) == 0:
		noDiscards(errors.New("no disk that it writes is on btrfs"))
		return nil, nil
	}
	if err := o.setInherited(unix.FD_CLOEXEC); err != nil {
		return nil, err
	}
	discarder, err := discard.Start(o.Discards.Command, o.Discards.UID)
	if err != nil {
		noDiscards(err)
	}
	return discarder, o.setInherited(0)
}

// setInherited sets the flags of the files handed over: those of FD_CLOEXEC aren't inherited by a program that is executed.
func (o Order) setInherited(flags int) error {
	for fd := firstFile; fd < firstFile+o.Open; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags); err != nil {
			return errors.Wrapf(err, "cannot hand over file %d of a VM", fd)
		}
	}
	return nil
}

// noDiscards says in the VM's log that the guest is offered no discards.
func noDiscards(why error) {
	fmt.Fprintf(os.Stderr, "croft: the VM's discards aren't passed on to its disks: %v\n", why)
}

// leaveService leaves the groups of the agent's service in hierarchies without limits, such as version 1's of systemd, which ends what
// is in a service's group with the service.
func leaveService(at machine.Files) {
	all, err := cgroup.Hierarchies()
	if err != nil {
		return
	}
	without := slices.DeleteFunc(all, cgroup.Hierarchy.Limits)
	for _, err := range cgroup.BesideIn(without, ServiceGroup(at)).Enter(os.Getpid()) {
		fmt.Fprintf(os.Stderr, "croft: %v\n", err)
	}
}

// ServiceGroup is the name of the group of all VMs of a node where groups have no limits.
func ServiceGroup(at machine.Files) string { return cgroup.Name("vms", filepath.Dir(string(at))) }

// confineGroup enters the control group with its limits, and sets what the VM's processes have in common.
func confineGroup(o Order) error {
	group, err := cgroup.At(o.Cgroup)
	if err == nil {
		err = group.Make()
	}
	if err != nil {
		return errors.Wrap(err, "cannot make the VM's control group")
	}
	for _, missing := range group.Limit(o.Limits) {
		if missing == "memory" || missing == "pids" {
			return errors.Errorf("cannot run a VM: this machine can't hold its limit of %s", missing)
		}
		fmt.Fprintf(os.Stderr, "croft: this machine can't hold the VM's limit of %s\n", missing)
	}
	leaveService(o.Files)
	if failures := group.Enter(os.Getpid()); len(failures) > 0 {
		return errors.Wrap(failures[0], "cannot enter the VM's control group")
	}
	// A service manager may have made the agent the last one that the kernel kills for memory.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0); err != nil {
		return errors.Wrap(err, "cannot set the preference of the kernel's kills for memory")
	}
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return errors.Wrap(err, "cannot switch off core dumps")
	}
	return nil
}

// giveUp gives up root and every right that goes with it, for good, and the right to write files that aren't open.
func giveUp(o Order) error {
	groups := make([]int, len(o.Groups))
	for i, g := range o.Groups {
		groups[i] = int(g)
	}
	uid := int(o.UID)
	if uid == 0 {
		return errors.New("cannot run a VM as root")
	}
	// These change all threads; see package syscall.
	for _, step := range []struct {
		name string
		err  error
	}{{"groups", syscall.Setgroups(groups)}, {"group", syscall.Setresgid(uid, uid, uid)}, {"user", syscall.Setresuid(uid, uid, uid)}} {
		if step.err != nil {
			return errors.Wrapf(step.err, "cannot set the %s of a VM's process", step.name)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return errors.Wrap(err, "cannot give up new privileges")
	}
	err := confine.NoWrites("/dev/kvm", "/dev/null")
	if errors.Is(err, confine.ErrNoLandlock) || errors.Is(err, confine.ErrTruncates) {
		fmt.Fprintf(os.Stderr, "croft: the VM's process isn't kept from all writing where everybody may write: %v\n", err)
		return nil
	}
	return err
}
