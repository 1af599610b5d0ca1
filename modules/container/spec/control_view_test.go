package spec_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/spec"
)

// checkOwn checks that a namespace isn't the node's.
func checkOwn(t *testing.T, names map[string][]string, kind string) {
	t.Helper()
	node, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		t.Fatal(err)
	}
	if len(names[kind]) != 1 || names[kind][0] == node || !strings.HasPrefix(names[kind][0], kind+":[") {
		t.Errorf("its %s namespace is %v, the node's is %s", kind, names[kind], node)
	}
}

func TestControlPIDNamespace(t *testing.T) {
	names := ask[map[string][]string](newContainer(t), "names")
	checkOwn(t, names, "pid")
	if !slices.Equal(names["processes"], []string{"1"}) {
		t.Errorf("it sees the processes %v, want itself alone", names["processes"])
	}
}

func TestControlIPCNamespace(t *testing.T) {
	const private, size, create, remove = 0, 4096, 0o1600, 0
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, private, size, create)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer unix.Syscall(unix.SYS_SHMCTL, id, remove, 0)
	shared, err := os.CreateTemp("/dev/shm", "croft-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(shared.Name())
	defer shared.Close()

	names := ask[map[string][]string](newContainer(t), "names")
	checkOwn(t, names, "ipc")
	if len(names["segments"]) != 0 || len(names["shared"]) != 0 || len(names["queues"]) != 0 {
		t.Errorf("it sees shared memory and queues that it didn't make: %v %v %v", names["segments"], names["shared"], names["queues"])
	}
	one, other := newContainer(t), newContainer(t)
	ask[string](one, "queue")
	if names := ask[map[string][]string](other, "names"); len(names["segments"]) != 0 || len(names["shared"]) != 0 {
		t.Errorf("it sees another container's shared memory: %v %v", names["segments"], names["shared"])
	}
}

func TestControlUTSNamespace(t *testing.T) {
	names := ask[map[string][]string](newContainer(t), "names")
	checkOwn(t, names, "uts")
	if !slices.Equal(names["hostname"], []string{"guest"}) {
		t.Errorf("its host name is %v", names["hostname"])
	}
}

func TestControlNetworkNamespace(t *testing.T) {
	c := newContainer(t)
	names := ask[map[string][]string](c, "names")
	checkOwn(t, names, "net")
	if !slices.Equal(names["interfaces"], []string{"lo"}) {
		t.Errorf("it has the interfaces %v, want loopback alone before it joins a network", names["interfaces"])
	}
	if again := ask[map[string][]string](c, "names"); again["net"][0] != names["net"][0] || again["user"][0] != names["user"][0] {
		t.Errorf("started again it is in %v %v, was in %v %v", again["net"], again["user"], names["net"], names["user"])
	}
}

func TestControlCgroups(t *testing.T) {
	c := newContainer(t)
	names := ask[map[string][]string](c, "names")
	checkOwn(t, names, "cgroup")
	status := ask[map[string]string](c, "status")
	for entry := range strings.FieldsSeq(status["cgroup"]) {
		if !strings.HasSuffix(entry, ":/") {
			t.Errorf("it sees its place in the node's cgroups: %s", entry)
		}
	}
	for path, answer := range ask[map[string]string](c, "open", "w", "/sys/fs/cgroup/*.max", "/sys/fs/cgroup/cgroup.*", "/sys/fs/cgroup/*/*") {
		if answer == "ok" {
			t.Errorf("it can write %s", path)
		}
	}
}

func TestControlPrivilegedPorts(t *testing.T) {
	c := newContainer(t)
	c.Process.UID, c.Process.GID = 1000, 1000
	if got := ask[string](c, "listen", "127.0.0.1:80"); got != "ok" {
		t.Errorf("user 1000 listens on port 80 of its own network: %s", got)
	}
	if got := ask[string](c, "ping"); !strings.HasPrefix(got, "127.0.0.1") {
		t.Errorf("user 1000 pings: %s", got)
	}
}

// mountsOf are a container's mounts: options and optional fields by mount point.
func mountsOf(c *container) (options, propagation, kinds map[string]string) {
	options, propagation, kinds = map[string]string{}, map[string]string{}, map[string]string{}
	for _, line := range ask[[]string](c, "mounts") {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		options[fields[4]] = fields[5]
		propagation[fields[4]] = strings.Join(fields[6:], " ")
		kinds[fields[4]] = after
	}
	return options, propagation, kinds
}

func TestControlMounts(t *testing.T) {
	c := newContainer(t)
	options, _, kinds := mountsOf(c)
	for point, want := range map[string]string{
		"/proc": "rw,nosuid,nodev,noexec", "/sys": "ro,nosuid,nodev,noexec", "/dev": "rw,nosuid", "/dev/pts": "rw,nosuid,noexec",
		"/dev/shm": "rw,nosuid,nodev,noexec", "/dev/mqueue": "rw,nosuid,nodev,noexec",
	} {
		if !strings.HasPrefix(options[point], want) {
			t.Errorf("%s is mounted %q, want %q", point, options[point], want)
		}
	}
	if !strings.Contains(kinds["/dev/shm"], "size=32768k") {
		t.Errorf("/dev/shm is %q, want half of the 64 MiB of memory", kinds["/dev/shm"])
	}
	for point := range kinds {
		known := point == "/" || slices.ContainsFunc([]string{"/proc", "/dev", "/sys"}, func(top string) bool { return point == top || strings.HasPrefix(point, top+"/") })
		if !known {
			t.Errorf("it sees the mount %s: %s", point, kinds[point])
		}
	}
}

// What is mounted on the node while a container runs doesn't come into it, nor
// the other way.
func TestControlMountPropagation(t *testing.T) {
	c := newContainer(t)
	_, propagation, _ := mountsOf(c)
	if len(propagation) < 10 {
		t.Fatalf("it sees %d mounts", len(propagation))
	}
	for point, fields := range propagation {
		if fields != "" {
			t.Errorf("%s is %q, want private", point, fields)
		}
	}
}

func TestControlMaskedPaths(t *testing.T) {
	c := newContainer(t)
	built, err := spec.Build(c.Config, c.host)
	c.must(err)
	hidden := ask[map[string]string](c, append([]string{"open", "r"}, built.Linux.MaskedPaths...)...)
	seen := 0
	for path, answer := range hidden {
		if answer != "empty" && answer != "ENOENT" {
			t.Errorf("%s: %s, want it empty", path, answer)
		}
		if answer == "empty" {
			seen++
		}
	}
	if seen < 3 {
		t.Errorf("only %d of the masked paths are on this machine: %v", seen, hidden)
	}
	c.change = func(s *specs.Spec) { s.Linux.MaskedPaths = nil }
	if shown := ask[map[string]string](c, "open", "r", "/proc/interrupts", "/sys/firmware"); shown["/proc/interrupts"] != "ok" {
		t.Errorf("unmasked they are %v: this test shows nothing", shown)
	}
}

func TestControlReadOnlyPaths(t *testing.T) {
	c := newContainer(t)
	options, _, _ := mountsOf(c)
	for _, path := range []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"} {
		if _, err := os.Stat(path); err == nil && !strings.HasPrefix(options[path], "ro,") {
			t.Errorf("%s is mounted %q, want read-only", path, options[path])
		}
	}
	patterns := []string{"/proc/sysrq-trigger", "/proc/sys/*/*", "/proc/sys/net/*/*", "/proc/kmsg", "/proc/kcore", "/sys/kernel/*", "/sys/power/*", "/sys/module/*/parameters/*"}
	answers := ask[map[string]string](c, append([]string{"open", "w"}, patterns...)...)
	if len(answers) < 100 {
		t.Errorf("only %d files were tried", len(answers))
	}
	built, err := spec.Build(c.Config, c.host)
	c.must(err)
	for path, answer := range answers {
		// What lies over a masked file is /dev/null.
		if answer == "ok" && !slices.Contains(built.Linux.MaskedPaths, path) {
			t.Errorf("it can write %s", path)
		}
	}
}

func TestControlDevices(t *testing.T) {
	c := newContainer(t)
	names := ask[map[string][]string](c, "names")
	want := []string{"fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
	slices.Sort(names["dev"])
	got := slices.DeleteFunc(names["dev"], func(name string) bool { return name == "core" })
	if !slices.Equal(got, want) {
		t.Errorf("/dev has %v, want %v", got, want)
	}
	for path, answer := range ask[map[string]string](c, "open", "w", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx") {
		if answer != "ok" {
			t.Errorf("%s doesn't open: %s", path, answer)
		}
	}
	type device struct{ kind, major, minor uint32 }
	bad := map[string]device{
		"disk": {unix.S_IFBLK, 254, 0}, "mem": {unix.S_IFCHR, 1, 1}, "kmsg": {unix.S_IFCHR, 1, 11},
		"fuse": {unix.S_IFCHR, 10, 229}, "loop-control": {unix.S_IFCHR, 10, 237},
	}
	for name, d := range bad {
		path := filepath.Join(c.Root, "data", name)
		c.must(unix.Mknod(path, d.kind|0o600, int(unix.Mkdev(d.major, d.minor))))
		c.must(os.Chmod(path, 0o666))
		c.must(os.Chown(path, int(c.Base), int(c.Base)))
	}
	for _, how := range []string{"r", "w"} {
		answers := ask[map[string]string](c, "open", how, "/data/*")
		if len(answers) != len(bad) {
			t.Errorf("tried %v", answers)
		}
		for path, answer := range answers {
			if answer != "EPERM" {
				t.Errorf("a node that the image brought, %s, opened for %s: %s", path, how, answer)
			}
		}
	}
}
