package spec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/sys"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/spec"
)

// container is one of a test: its root file system, namespaces and cgroup are
// made, as the root file system's package would make them, and it runs by runc.
type container struct {
	spec.Config
	t    *testing.T
	dir  string
	host spec.Host
	// change changes what Build says, for a test of the tests.
	change func(*specs.Spec)
}

// deadline is for whatever a test waits for, on a slow and busy machine.
const deadline = 2 * time.Minute

func newContainer(t *testing.T) *container {
	t.Helper()
	host, err := spec.Detect(spec.Probe{})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "croft-spec-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	id := "test-" + strings.ToLower(rand.Text()[:10])
	c := &container{t: t, dir: dir, host: host, Config: spec.Config{
		ID: id, Root: filepath.Join(dir, "root"), UserNS: filepath.Join(dir, "user"), NetNS: filepath.Join(dir, "net"),
		Base: randomBase(t), CgroupsPath: "/croft-" + id + "/c", Hostname: "guest",
		CPU: 1, Memory: 64 << 20, PIDs: 64,
		Process: spec.Process{Args: []string{"/probe"}, Env: []string{"PATH=/"}, Cwd: "/"},
	}}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c.makeRoot()
	c.makeNamespaces()
	t.Cleanup(c.removeCgroups)
	t.Cleanup(func() {
		if out, err := c.runc("delete", "--force", c.ID).CombinedOutput(); err != nil {
			t.Errorf("runc delete: %v: %s", err, out)
		}
	})
	return c
}

func randomBase(t *testing.T) uint32 {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(2048))
	if err != nil {
		t.Fatal(err)
	}
	return 0x50000000 + uint32(n.Int64())*spec.IDs
}

func (c *container) makeRoot() {
	c.t.Helper()
	for _, dir := range []string{"", "proc", "sys", "dev", "etc", "data"} {
		c.must(os.Mkdir(filepath.Join(c.Root, dir), 0o755))
	}
	c.must(os.Mkdir(filepath.Join(c.Root, "tmp"), 0o777))
	c.must(os.Chmod(filepath.Join(c.Root, "tmp"), 0o777|os.ModeSticky))
	for name, from := range map[string]string{"probe": probe, "setuid": probe, "probe32": probe32} {
		if from == "" {
			continue
		}
		program, err := os.ReadFile(from)
		c.must(err)
		c.must(os.WriteFile(filepath.Join(c.Root, name), program, 0o755))
	}
	c.must(filepath.WalkDir(c.Root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(c.Base), int(c.Base))
	}))
	c.must(os.Chmod(filepath.Join(c.Root, "setuid"), 0o755|os.ModeSetuid|os.ModeSetgid))
}

func (c *container) makeNamespaces() {
	c.t.Helper()
	ids := fmt.Sprintf("0:%d:%d", c.Base, spec.IDs)
	c.must(sys.UnshareAfterEnterUserns(ids, ids, unix.CLONE_NEWNET, func(pid int) error {
		for kind, path := range map[string]string{"user": c.UserNS, "net": c.NetNS} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			if err := unix.Mount(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), path, "", unix.MS_BIND, ""); err != nil {
				return err
			}
			c.t.Cleanup(func() {
				if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
					c.t.Errorf("unmount %s: %v", path, err)
				}
			})
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

func (c *container) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// groups are the folders of a cgroup: one in each hierarchy of version 1, and that of version 2, which is mounted
// beside these or alone.
func (c *container) groups(part string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup" + part, "/sys/fs/cgroup/*" + part} {
		dirs, err := filepath.Glob(pattern)
		c.must(err)
		found = append(found, dirs...)
	}
	return found
}

// removeCgroups removes what runc leaves of the parent of the container's cgroup.
func (c *container) removeCgroups() {
	end := time.Now().Add(deadline)
	for _, part := range []string{c.CgroupsPath, filepath.Dir(c.CgroupsPath)} {
		for _, dir := range c.groups(part) {
			for err := os.Remove(dir); err != nil; err = os.Remove(dir) {
				if time.Now().After(end) {
					c.t.Errorf("a cgroup is left: %v", err)
					break
				}
				<-time.After(10 * time.Millisecond)
			}
		}
	}
}

func (c *container) runc(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	c.t.Cleanup(cancel)
	runtime := "runc"
	if lines := c.host.SetLimits(); len(lines) != 0 {
		script := "#!/bin/sh\n" + strings.Join(lines, "\n") + "\nexec runc \"$@\"\n"
		runtime = filepath.Join(c.dir, "runtime")
		c.must(os.WriteFile(runtime, []byte(script), 0o700))
	}
	return exec.CommandContext(ctx, runtime, append([]string{"--root", filepath.Join(c.dir, "runc")}, args...)...)
}

// command is runc's, which runs the probe with that question in the container.
func (c *container) command(args ...string) *exec.Cmd {
	c.t.Helper()
	c.Process.Args = append([]string{c.Process.Args[0]}, args...)
	built, err := spec.Build(c.Config, c.host)
	c.must(err)
	if c.change != nil {
		c.change(built)
	}
	text, err := json.Marshal(built)
	c.must(err)
	c.must(os.WriteFile(filepath.Join(c.dir, "config.json"), text, 0o600))
	return c.runc("run", "--bundle", c.dir, c.ID)
}

// ask runs the probe with that question, and reads its answer.
func ask[T any](c *container, args ...string) T {
	c.t.Helper()
	answer, err := tryAsk[T](c, args...)
	if err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// tryAsk is for a question that the container may not survive.
func tryAsk[T any](c *container, args ...string) (answer T, err error) {
	c.t.Helper()
	command := c.command(args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return answer, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return answer, json.Unmarshal(stdout.Bytes(), &answer)
}

// running starts a container that goes on until the returned function is called.
func (c *container) running() (stop func()) {
	c.t.Helper()
	command := c.command("wait")
	stdin, err := command.StdinPipe()
	c.must(err)
	stdout, err := command.StdoutPipe()
	c.must(err)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	c.must(command.Start())
	line := make([]byte, len(`"running"`))
	if _, err := io.ReadFull(stdout, line); err != nil {
		_ = command.Wait()
		c.t.Fatalf("the container doesn't run: %v: %s", err, stderr.String())
	}
	return func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		if err := command.Wait(); err != nil {
			c.t.Errorf("the container's end: %v: %s", err, stderr.String())
		}
	}
}

// limit reads a file of the container's cgroup, as the node has it.
func (c *container) limit(controller, file string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", controller, c.CgroupsPath, file))
	c.must(err)
	return strings.TrimSpace(string(text))
}
