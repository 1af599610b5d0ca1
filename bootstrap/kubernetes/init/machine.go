package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/clusterboot"
	"github.com/croft-edge/croft/pkg/nocloud"
)

// Folders of the machine.
const (
	// dataAt is where the data disk is; parts of it are /var, /etc and /root.
	dataAt = "/run/data"
	// stateAt has init's own state, logsAt the programs' logs, configAt the programs' configuration, made at each boot.
	stateAt  = "/var/lib/croft"
	logsAt   = "/var/log/croft"
	configAt = "/run/croft"
)

// mountAll mounts what needs no disk.
func mountAll() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"tmpfs", "/run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "/tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"devpts", "/dev/pts", "mode=620,ptmxmode=666", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"mqueue", "/dev/mqueue", "", safe},
		{"cgroup2", "/sys/fs/cgroup", "nsdelegate", safe},
		{"bpf", "/sys/fs/bpf", "mode=700", safe},
	} {
		// The root file system's own folders are there; those below /dev are made.
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.at, err)
		}
	}
	// Pods' mounts come and go in mount namespaces below this one.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot share mounts: %w", err)
	}
	return nil
}

// modules are those that devices and pods' networks need. Others are loaded by the kernel when they are needed.
func modules() []string {
	return []string{
		"isofs", "evdev", "button", "virtio_net", "virtio_rng", "overlay", "vxlan", "veth", "nf_conntrack", "nf_tables",
		"nft_chain_nat", "nft_ct", "nft_nat", "nft_masq", "nft_reject", "nft_reject_ipv4", "nft_reject_ipv6", "nft_reject_inet", "nft_numgen",
		"nft_limit", "nft_log", "nft_fib", "nft_fib_ipv4", "nft_fib_inet", "nft_hash", "nft_redir", "br_netfilter",
	}
}

// loadModules loads modules. Those that are missing may be built into the kernel.
func loadModules() {
	out, err := exec.Command("/sbin/modprobe", append([]string{"-a"}, modules()...)...).CombinedOutput() //nolint:noctx // it ends by itself
	if err != nil {
		say("not all kernel modules are loaded: %v: %s", err, oneLine(out))
	}
}

// mountData mounts the data disk, and parts of it at /var, /etc and /root.
func mountData() error {
	if err := mountDisk(); err != nil {
		return err
	}
	if err := os.MkdirAll(dataAt+"/var", 0o755); err != nil {
		return err
	}
	if err := unix.Mount(dataAt+"/var", "/var", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount /var: %w", err)
	}
	for _, at := range []string{"/etc", "/root"} {
		if err := mountOver(at); err != nil {
			return err
		}
	}
	for _, at := range []string{stateAt, logsAt, configAt, "/run/lock", "/var/lib/kubelet", "/var/lib/etcd"} {
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// mountDisk mounts the data disk at dataAt. An empty one gets a file system, croft's own is mended; anything else is left alone.
func mountDisk() error {
	disk, err := waitForDisk(dataSerial)
	if err != nil {
		return err
	}
	first, err := firstBlock(disk.Device())
	if err != nil {
		return err
	}
	switch {
	case isEmpty(first):
		say("making a file system on %s, %d GiB", disk.Name, disk.Bytes>>30)
		if err := command("/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-L", dataLabel, "-m", "1", "-E", "lazy_itable_init=1,lazy_journal_init=1", disk.Device()); err != nil {
			return err
		}
	case labelOf(first) == dataLabel:
		if err := repair(disk.Device()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dataAt, 0o755); err != nil {
		return err
	}
	// The tables of inodes that mke2fs left out aren't written as zeros in the background: a new disk has only zeros. After an error
	// the next boot mends it: a machine whose disk can only be read does nothing of use.
	if err := unix.Mount(disk.Device(), dataAt, "ext4", unix.MS_NOATIME, "noinit_itable,errors=panic"); err != nil {
		return fmt.Errorf("cannot mount the data disk %s: %w", disk.Name, err)
	}
	// The disk may have grown.
	if err := command("/usr/sbin/resize2fs", disk.Device()); err != nil {
		say("the file system doesn't grow: %v", err)
	}
	return nil
}

// repair mends what a power cut or a failing disk has left, as far as that needs no decision.
func repair(device string) error {
	// This exit code of e2fsck(8) and those above it are of errors that are left; those below are of what was mended.
	const leftErrors = 4
	out, err := exec.Command("/usr/sbin/e2fsck", "-p", device).CombinedOutput() //nolint:noctx // it ends by itself
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < leftErrors:
		say("the data disk's file system was mended: %s", oneLine(out))
		return nil
	}
	return fmt.Errorf("the data disk is damaged, and isn't mounted; its owner mends it at the console by e2fsck %s: %w: %s", device, err, oneLine(out))
}

// beingMended reports whether a program has the data disk open for itself, as e2fsck does, while it isn't mounted.
func beingMended() bool {
	for _, disk := range guest.Disks() {
		if disk.Serial != dataSerial || strings.Contains(guest.ReadText("/proc/mounts"), " "+dataAt+" ") {
			continue
		}
		fd, err := unix.Open(disk.Device(), unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return errors.Is(err, unix.EBUSY)
	}
	return false
}

// mountOver makes a folder of the root file system writable: what changes is on the data disk.
func mountOver(at string) error {
	upper, work := dataAt+at, dataAt+at+".work"
	for _, folder := range []string{upper, work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", at, upper, work)
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		return fmt.Errorf("cannot make %s writable: %w", at, err)
	}
	return nil
}

// What a file system of ext4 begins with (Documentation/filesystems/ext4/super.rst): its superblock is written last when one is made.
const (
	firstBytes = 4096
	magicAt    = 1024 + 0x38
	magic      = "\x53\xef"
	labelAt    = 1024 + 0x78
	labelBytes = 16
	// dataLabel is the label of the data disk's file system.
	dataLabel = "croft-data"
)

// firstBlock reads the first bytes of a disk.
func firstBlock(device string) ([]byte, error) {
	f, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	first := make([]byte, firstBytes)
	if _, err := f.ReadAt(first, 0); err != nil {
		return nil, fmt.Errorf("cannot read the data disk: %w", err)
	}
	return first, nil
}

// isEmpty reports whether a disk that begins so has nothing.
func isEmpty(first []byte) bool { return len(bytes.Trim(first, "\x00")) == 0 }

// labelOf is the label of the file system that begins so; empty for one that isn't ext4's.
func labelOf(first []byte) string {
	if string(first[magicAt:magicAt+len(magic)]) != magic {
		return ""
	}
	return string(bytes.TrimRight(first[labelAt:labelAt+labelBytes], "\x00"))
}

// readBootData reads the config disk.
func readBootData() (nocloud.Config, clusterboot.Data, error) {
	device := ""
	for _, d := range guest.Disks() {
		if guest.IsConfig(d.Device()) {
			device = d.Device()
		}
	}
	config, _, err := guest.ReadConfig(device, "/run/config")
	if err != nil {
		return config, clusterboot.Data{}, err
	}
	data, err := clusterboot.Parse(config.UserData)
	return config, data, errors.Join(err, unix.Unmount("/run/config", 0))
}

// configureNetwork names the machine and sets up its interfaces. It returns the name of the first one.
func configureNetwork(c nocloud.Config) (string, error) {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return "", fmt.Errorf("cannot name the machine: %w", err)
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n%s %s\n", firstAddress(c), c.Hostname)
	for name, content := range map[string]string{"/etc/hosts": hosts, "/etc/hostname": c.Hostname + "\n"} {
		if err := replaceFile(name, []byte(content), 0o644); err != nil {
			say("%v", err) // on a full disk the machine is of use without
		}
	}
	if err := guest.LinkUp("lo"); err != nil {
		return "", err
	}
	first := ""
	for _, n := range c.Interfaces {
		name, err := guest.Configure(n)
		if err != nil {
			return "", fmt.Errorf("cannot set up interface %s: %w", n.MAC, err)
		}
		if first == "" {
			first = name
		}
		if err := guest.WriteResolver(n); err != nil {
			say("%v", err)
		}
	}
	if first == "" {
		return "", errors.New("cannot set up the network: the config disk has no interface")
	}
	return first, nil
}

func firstAddress(c nocloud.Config) string {
	for _, n := range c.Interfaces {
		for _, p := range n.Addresses {
			return p.Addr().String()
		}
	}
	return "127.0.1.1"
}

// setKernel sets what Kubernetes expects of the kernel.
func setKernel() {
	for name, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv4/conf/default/rp_filter": "1", "vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"fs/inotify/max_user_instances": "8192", "fs/inotify/max_user_watches": "524288",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			say("cannot set %s: %v", strings.ReplaceAll(name, "/", "."), err)
		}
	}
}

// replaceFile writes a file, unless it has that content: nothing is written at each boot to a disk that may be full.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return nil
	}
	return atomicfile.WriteFile(path, content, mode)
}

// command runs a program to its end; its error has what the program printed.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput() //nolint:noctx // it ends by itself
	if err != nil {
		return fmt.Errorf("cannot run %s: %w: %s", filepath.Base(name), err, oneLine(out))
	}
	return nil
}

// oneLine is text of a program, shortened, for an error.
func oneLine(text []byte) string {
	return clip.Text(strings.Join(strings.Fields(string(text)), " "), 300)
}
