package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/sys"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/spec"
)

// container is a container as croft makes them: a user namespace, few capabilities, seccomp, no new
// privileges.
type container struct {
	*testing.T
	spec.Config
	dir  string
	host spec.Host
}

func newContainer(t *testing.T, uid uint32, args ...string) *container {
	t.Helper()
	host, err := spec.Detect(spec.Probe{})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "croft-runc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	id := "init-" + strings.ToLower(rand.Text()[:10])
	c := &container{T: t, dir: dir, host: host, Config: spec.Config{
		ID: id, Root: newRoot(t, "sh", "tool"), UserNS: filepath.Join(dir, "user"), NetNS: filepath.Join(dir, "net"),
		Base: 0x50000000 + uint32(rand.Text()[0])*spec.IDs, CgroupsPath: "/croft-" + id + "/c", Hostname: "guest",
		CPU: 1, Memory: 64 << 20, PIDs: 64,
		Process: spec.Process{Args: append([]string{"/.croft/init"}, args...), Env: []string{"PATH=/bin"}, Cwd: "/", UID: uid, GID: uid},
	}}
	c.must(os.Chmod(dir, 0o711))
	c.must(filepath.WalkDir(c.Root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(c.Base), int(c.Base))
	}))
	c.makeNamespaces()
	t.Cleanup(c.remove)
	return c
}

func (c *container) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *container) makeNamespaces() {
	c.Helper()
	ids := fmt.Sprintf("0:%d:%d", c.Base, spec.IDs)
	c.must(sys.UnshareAfterEnterUserns(ids, ids, unix.CLONE_NEWNET, func(pid int) error {
		for kind, path := range map[string]string{"user": c.UserNS, "net": c.NetNS} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			if err := unix.Mount(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), path, "", unix.MS_BIND, ""); err != nil {
				return err
			}
			c.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		}
		return nil
	}))
	ns, err := netns.GetFromPath(c.NetNS)
	c.must(err)
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns)
	c.must(err)
	defer handle.Close()
	loopback, err := handle.LinkByName("lo")
	c.must(err)
	c.must(handle.LinkSetUp(loopback))
}

// runc is the runtime, started through a shell that sets limits where the host needs that.
func (c *container) runc(args ...string) *exec.Cmd {
	runtime := "runc"
	if lines := c.host.SetLimits(); len(lines) != 0 {
		script := "#!/bin/sh\n" + strings.Join(lines, "\n") + "\nexec runc \"$@\"\n"
		runtime = filepath.Join(c.dir, "runtime")
		c.must(os.WriteFile(runtime, []byte(script), 0o700))
	}
	return exec.Command(runtime, append([]string{"--root", filepath.Join(c.dir, "runc")}, args...)...)
}

// run starts the container and returns once its first process, the box's, runs.
func (c *container) run() *box {
	c.Helper()
	built, err := spec.Build(c.Config, c.host)
	c.must(err)
	text, err := json.Marshal(built)
	c.must(err)
	c.must(os.WriteFile(filepath.Join(c.dir, "config.json"), text, 0o600))
	pidFile := filepath.Join(c.dir, "pid")
	b := follow(c.T, c.runc("run", "--pid-file", pidFile, "--bundle", c.dir, c.ID))
	b.eventually("the container runs", func() bool {
		raw, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		b.pid, err = strconv.Atoi(string(raw))
		return err == nil
	})
	return b
}

// remove removes the container.
func (c *container) remove() {
	if out, err := c.runc("delete", "--force", c.ID).CombinedOutput(); err != nil {
		c.Errorf("runc delete: %v: %s", err, out)
	}
	deadline := time.Now().Add(patience)
	for _, part := range []string{c.CgroupsPath, filepath.Dir(c.CgroupsPath)} {
		dirs, err := filepath.Glob("/sys/fs/cgroup/*" + part)
		if err != nil {
			c.Error(err)
		}
		for _, dir := range append(dirs, "/sys/fs/cgroup"+part) {
			for err := os.Remove(dir); err != nil && !os.IsNotExist(err); err = os.Remove(dir) {
				if time.Now().After(deadline) {
					c.Errorf("a cgroup is left: %v", err)
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

func TestInAContainerAsCroftMakesThem(t *testing.T) {
	for name, uid := range map[string]uint32{"as root": 0, "as a user of the image": 1000} {
		t.Run(name, func(t *testing.T) {
			b := newContainer(t, uid, "--listen", address, "--", "tool", "signals", "parent").run()
			b.says("parent ready")
			b.says("child ready")
			useTerminal(b)
			b.signal(syscall.SIGUSR1)
			b.says("parent 10\n")
			b.says("child 10\n")
			b.signal(syscall.SIGTERM)
			if code := b.end(); code != 9 {
				t.Errorf("runc ended with %d, the program with 9", code)
			}
			if got := b.stderr.String(); got != "" {
				t.Errorf("the container's log has %q", got)
			}
		})
	}
}
