package main

import (
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/pkg/mounts"
)

// Folders of a booted node.
const (
	// runAt has init's own files, configAt croftd's configuration, stateAt the node's state, which is bound to the folders of states.
	runAt    = "/run/init"
	configAt = "/run/config"
	stateAt  = "/run/state"
	logsAt   = "/var/log/croft"
	bootAt   = "/boot"
)

// states are the folders whose content survives a reboot, by their names in the state.
func states() map[string]string {
	return map[string]string{"croft": "/var/lib/croft", imagesName: "/var/lib/containerd", "log": "/var/log", "init": "/var/lib/init"}
}

// imagesName is the name of the state's folder with containers' images and their layers.
const imagesName = "containerd"

// kernelMount is a file system of the kernel's own.
type kernelMount struct {
	kind, at, options string
	flags             uintptr
	// optional ones aren't in every kernel.
	optional bool
}

func kernelMounts() []kernelMount {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return []kernelMount{
		{kind: "tmpfs", at: "/run", options: "mode=755", flags: unix.MS_NOSUID | unix.MS_NODEV},
		{kind: "tmpfs", at: "/tmp", options: "mode=1777", flags: unix.MS_NOSUID | unix.MS_NODEV},
		{kind: "devpts", at: "/dev/pts", options: "mode=620,ptmxmode=666,gid=5", flags: unix.MS_NOSUID | unix.MS_NOEXEC},
		{kind: "tmpfs", at: "/dev/shm", options: "mode=1777", flags: unix.MS_NOSUID | unix.MS_NODEV},
		{kind: "mqueue", at: "/dev/mqueue", flags: safe},
		{kind: "cgroup2", at: "/sys/fs/cgroup", options: "nsdelegate", flags: safe},
		{kind: "securityfs", at: "/sys/kernel/security", flags: safe, optional: true},
		{kind: "bpf", at: "/sys/fs/bpf", options: "mode=700", flags: safe, optional: true},
		{kind: "efivarfs", at: "/sys/firmware/efi/efivars", flags: safe, optional: true},
	}
}

// mountKernel mounts what needs no disk, but for what is mounted already: init may have been started again.
func mountKernel() error {
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	for _, m := range kernelMounts() {
		if _, there := mounted.At(m.at); there {
			continue
		}
		if strings.HasPrefix(m.at, "/dev/") {
			if err := os.MkdirAll(m.at, 0o755); err != nil {
				return errors.Wrap(err, "cannot make a mount point")
			}
		}
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil && !m.optional {
			return errors.Wrapf(err, "cannot mount %s", m.at)
		}
	}
	// Mounts of workloads come and go in mount namespaces below this one.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return errors.Wrap(err, "cannot share mounts")
	}
	for at, mode := range map[string]os.FileMode{runAt: 0o700, configAt: 0o755, stateAt: 0o700, "/run/lock": 0o755} {
		if err := os.MkdirAll(at, mode); err != nil {
			return errors.Wrap(err, "cannot make a folder")
		}
	}
	return nil
}

// shareControllers passes the controllers of control groups on to those below the root, which limit workloads. The root group has processes, and may pass them on all the
// same.
func shareControllers() error {
	const file = "/sys/fs/cgroup/cgroup.subtree_control"
	have, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return errors.Wrap(err, "cannot read the controllers of control groups")
	}
	var failed error
	for name := range strings.FieldsSeq(string(have)) {
		if err := os.WriteFile(file, []byte("+"+name), 0o644); err != nil && failed == nil {
			failed = errors.Wrapf(err, "cannot share the controller %s of control groups", name)
		}
	}
	return failed
}

// bindState binds the folders of the state to their places. It has been made and mounted before.
func bindState(state string) error {
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	for name, at := range states() {
		if _, there := mounted.At(at); there {
			continue
		}
		from := state + "/" + name
		if err := os.MkdirAll(from, 0o755); err != nil {
			return errors.Wrap(err, "cannot make a folder of the node's state")
		}
		if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
			return errors.Wrapf(err, "cannot bind %s", at)
		}
	}
	return errors.Wrap(os.MkdirAll(logsAt, 0o700), "cannot make a folder of the node's state")
}

// bootWritable mounts the boot medium so that it can be written to, or that it can't.
func bootWritable(writable bool) error {
	flags := uintptr(unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if !writable {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", bootAt, "", flags, "")
}

// setKernel sets what a node expects of the kernel; it returns what can't be set.
func setKernel() (faults []error) {
	for name, value := range map[string]string{
		// A node that has stopped in an oops would hold its workloads hostage.
		"kernel/panic": "10", "kernel/panic_on_oops": "1",
		"vm/overcommit_memory": "0", "vm/max_map_count": "262144",
		"fs/inotify/max_user_instances": "8192", "fs/inotify/max_user_watches": "524288", "fs/file-max": "1048576",
		"user/max_user_namespaces": "15000", "kernel/pid_max": "4194304",
		"net/ipv4/conf/default/rp_filter": "2", "net/core/somaxconn": "4096",
		"kernel/unprivileged_bpf_disabled": "1", "kernel/kptr_restrict": "2", "kernel/dmesg_restrict": "1", "kernel/yama/ptrace_scope": "1",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			faults = append(faults, errors.Wrapf(err, "cannot set %s", strings.ReplaceAll(name, "/", ".")))
		}
	}
	return append(faults, setHugePages()...)
}

// setHugePages has only those programs use huge pages that ask for them, as QEMU does: the heaps of a dozen small programs would grow by 2 MiB at a
// time. The kernel reserves more memory where there are huge pages (mm/khugepaged.c), which is taken back.
func setHugePages() (faults []error) {
	for _, set := range []struct{ file, value string }{
		{"/sys/kernel/mm/transparent_hugepage/enabled", "madvise"},
		{"/proc/sys/vm/min_free_kbytes", strconv.Itoa(reserveKiB(guest.MemoryBytes()))},
	} {
		if err := os.WriteFile(set.file, []byte(set.value), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, errors.Wrapf(err, "cannot write %s", set.file))
		}
	}
	return faults
}

// reserveKiB is the kernel's own reserve without huge pages for a machine's memory in bytes (mm/page_alloc.c, calculate_min_free_kbytes).
func reserveKiB(memory uint64) int {
	const least, most = 128, 256 << 10
	return max(least, min(most, int(math.Sqrt(float64(memory>>10)*16))))
}
