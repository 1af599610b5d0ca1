package containerd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kind(t *testing.T, err error, want node.Kind) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v of kind %s, want %s", err, node.KindOf(err), want)
	}
}

// eventually asks until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// pid is that of who listens on the daemon's socket.
func pid(t *testing.T, d *containerd.Daemon) int {
	t.Helper()
	conn, err := net.Dial("unix", d.Address())
	must(t, err)
	defer conn.Close()
	return listener(t, conn)
}

// listener is the process that accepts a connection.
func listener(t *testing.T, conn net.Conn) int {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	must(t, err)
	var cred *unix.Ucred
	must(t, raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }))
	must(t, err)
	return int(cred.Pid)
}

// use makes and removes something, and reads it back.
func use(t *testing.T, d *containerd.Daemon, user string) {
	t.Helper()
	c, err := d.Client(t.Context())
	must(t, err)
	ctx := d.Namespace(t.Context(), user)
	lease, err := c.LeasesService().Create(ctx)
	must(t, err)
	must(t, c.LeasesService().Delete(ctx, lease))
}

func TestOwnContainerdIsIsolated(t *testing.T) {
	config := containerdtest.Config(t)
	d := containerdtest.Open(t, config)
	use(t, d, "ada")

	address, version, own, err := d.Status()
	if err != nil || !own || version == "" || address != filepath.Join(config.RunDir, "containerd", "containerd.sock") {
		t.Errorf("status %q %q %t %v", address, version, own, err)
	}
	p := pid(t, d)
	if sid, err := unix.Getsid(p); err != nil || sid != p {
		t.Errorf("it is in session %d (%v), want one of its own", sid, err)
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p))
	must(t, err)
	mine, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	if !strings.Contains(string(groups), "/croft-containerd-") || string(groups) == string(mine) {
		t.Errorf("it isn't in control groups of its own:\n%s", groups)
	}
	for _, socket := range sockets(t, p) {
		if !strings.HasPrefix(socket, config.RunDir+"/") {
			t.Errorf("it listens on %s, want only what is below %s", socket, config.RunDir)
		}
	}
	if info, err := os.Stat(address); err != nil || info.Mode().Perm()&0o077 != 0 && info.Mode().Perm() != 0o660 {
		t.Errorf("its socket has mode %v (%v)", info.Mode(), err)
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p))
	must(t, err)
	if strings.Count(string(environment), "=") != 1 {
		t.Errorf("it has more of our environment than PATH: %q", environment)
	}
	c, err := d.Client(t.Context())
	must(t, err)
	plugins, err := c.IntrospectionService().Plugins(t.Context())
	must(t, err)
	for _, plugin := range plugins.Plugins {
		if plugin.ID == "cri" && plugin.InitErr == nil {
			t.Error("it serves Kubernetes")
		}
		if (plugin.ID == "tasks" || plugin.ID == "tasks-service" || plugin.ID == "overlayfs") && plugin.InitErr != nil {
			t.Errorf("%s doesn't work: %v", plugin.ID, plugin.InitErr)
		}
	}
}

// sockets are what a process listens on, of any kind.
func sockets(t *testing.T, pid int) []string {
	t.Helper()
	inodes := map[string]bool{}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		target, _ := os.Readlink(filepath.Join(dir, f.Name()))
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var out []string
	for name, column := range map[string]int{"unix": 6, "tcp": 9, "tcp6": 9, "udp": 9, "udp6": 9} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		must(t, err)
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			if len(fields) <= column || !inodes[fields[column]] {
				continue
			}
			switch {
			case name != "unix":
				out = append(out, name+" "+fields[1])
			case fields[3] == "00010000": // accepts connections
				out = append(out, fields[len(fields)-1])
			}
		}
	}
	if len(out) == 0 {
		t.Error("it listens on nothing: the test looks in the wrong place")
	}
	return out
}

func TestOwnIsAdopted(t *testing.T) {
	config := containerdtest.Config(t)
	first := containerdtest.Open(t, config)
	use(t, first, "ada")
	p := pid(t, first)
	must(t, first.Close())
	if _, err := first.Client(t.Context()); err == nil {
		t.Error("a closed one gives a client")
	}
	second := containerdtest.Open(t, config)
	if now := pid(t, second); now != p {
		t.Errorf("process %d, want the first one's %d", now, p)
	}
	users, err := second.Users(t.Context())
	if err != nil || len(users) != 1 || users[0] != "ada" {
		t.Errorf("users %v (%v), want ada", users, err)
	}
}

func TestOwnIsStartedAgainWhenKilled(t *testing.T) {
	config := containerdtest.Config(t)
	d := containerdtest.Open(t, config)
	beside := containerdtest.Open(t, config) // of another process: they don't start two
	use(t, d, "ada")
	for range 2 {
		old := pid(t, d)
		must(t, unix.Kill(old, unix.SIGKILL))
		eventually(t, "another process to listen", func() bool {
			conn, err := net.Dial("unix", d.Address())
			if err != nil {
				return false
			}
			defer conn.Close()
			return listener(t, conn) != old // of this connection: a killed process listens for a moment more
		})
		for _, each := range []*containerd.Daemon{d, beside} {
			users, err := each.Users(t.Context())
			if err != nil || len(users) != 1 {
				t.Fatalf("users %v (%v), want ada", users, err)
			}
		}
	}
	if all := running(t, config); len(all) != 1 {
		t.Errorf("processes %v, want one", all)
	}
}

// running are the processes of croft's own containerd of c.
func running(t *testing.T, c containerd.Config) (out []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range all {
		raw, _ := os.ReadFile(path)
		if strings.HasPrefix(filepath.Base(strings.SplitN(string(raw), "\x00", 2)[0]), "containerd") && strings.Contains(string(raw), c.RunDir+"/containerd/config.toml") {
			p, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			out = append(out, p)
		}
	}
	return out
}

func TestUnreachableContainerdIsTransient(t *testing.T) {
	config := containerdtest.Config(t)
	own := containerdtest.Open(t, config)
	there := containerdtest.Config(t)
	there.Own, there.Address = false, own.Address()
	d := containerdtest.Open(t, there)
	use(t, d, "ada")
	must(t, own.Close()) // so that nobody starts it again
	must(t, containerd.TakeDown(t.Context(), config))

	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := d.Users(ctx)
	kind(t, err, node.Transient)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s to say so", took)
	}
	if _, version, _, err := d.Status(); err == nil || version == "" {
		t.Errorf("status %q %v, want its last version and an error", version, err)
	}
	containerdtest.Open(t, config)
	use(t, d, "ada") // connected again by itself
}

func TestForeignContainerdIsNeverStopped(t *testing.T) {
	theirs := containerdtest.Open(t, containerdtest.Config(t))
	p := pid(t, theirs)
	config := containerdtest.Config(t)
	config.Own, config.Address = false, theirs.Address()
	d := containerdtest.Open(t, config)
	use(t, d, "ada")
	if address, _, own, err := d.Status(); own || address != theirs.Address() || err != nil {
		t.Errorf("status %s %t %v", address, own, err)
	}
	must(t, d.Close())
	must(t, containerd.TakeDown(t.Context(), config))
	if now := pid(t, theirs); now != p {
		t.Errorf("process %d, want the same %d", now, p)
	}
	if all := running(t, config); len(all) != 0 {
		t.Errorf("it started %v", all)
	}
	// Namespaces of another prefix aren't this node's.
	if users, err := theirs.Users(t.Context()); err != nil || len(users) != 0 {
		t.Errorf("users %v (%v) of another's prefix", users, err)
	}
}

func TestTwoOwnContainerds(t *testing.T) {
	a, b := containerdtest.Start(t), containerdtest.Start(t)
	use(t, a, "ada")
	use(t, b, "bob")
	if pid(t, a) == pid(t, b) {
		t.Error("they are one process")
	}
	for d, want := range map[*containerd.Daemon]string{a: "ada", b: "bob"} {
		if users, err := d.Users(t.Context()); err != nil || len(users) != 1 || users[0] != want {
			t.Errorf("users %v (%v), want %s", users, err, want)
		}
	}
}

func TestTakeDownLeavesNothing(t *testing.T) {
	config := containerdtest.Config(t)
	must(t, containerd.TakeDown(t.Context(), config)) // there was none
	d := containerdtest.Open(t, config)
	p := pid(t, d)
	groups := groupFolders(t, p)
	must(t, d.Close())
	must(t, containerd.TakeDown(t.Context(), config))
	if all := running(t, config); len(all) != 0 {
		t.Errorf("processes %v", all)
	}
	for _, g := range groups {
		if _, err := os.Stat(g); !os.IsNotExist(err) {
			t.Errorf("group %s stayed (%v)", g, err)
		}
	}
	if len(groups) == 0 {
		t.Error("it had no groups of its own")
	}
	must(t, containerd.TakeDown(t.Context(), config))
}

func groupFolders(t *testing.T, pid int) (out []string) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line)[strings.Index(line, ":")+1:], ":")
		if !strings.Contains(path, "croft-containerd-") {
			continue
		}
		for _, pattern := range []string{"/sys/fs/cgroup" + path, "/sys/fs/cgroup/*" + path} {
			all, err := filepath.Glob(pattern)
			must(t, err)
			out = append(out, all...)
		}
	}
	return out
}
