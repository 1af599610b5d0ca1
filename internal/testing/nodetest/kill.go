package nodetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/workload"
)

// Containers are a node's containers, and the processes that hold them.
type Containers struct {
	tb testing.TB
	// node is the node's name.
	node             string
	runDir, stateDir string
	until            Until
	// agentRuns reports whether the node's agent runs; status requests its status.
	agentRuns func() bool
	status    func() (Status, error)
}

// ContainerdSocket is the socket of the node's own containerd.
func (c *Containers) ContainerdSocket() string {
	return filepath.Join(c.runDir, "containerd", "containerd.sock")
}

// Containerd is the process ID of the node's own containerd, 0 when there is none.
func (c *Containers) Containerd() int {
	conn, err := net.Dial("unix", c.ContainerdSocket())
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// DoorProcess is the process ID of the process behind the node's door, 0 when there is none.
func (n *Node) DoorProcess() int {
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", n.PID()))
	if err != nil {
		n.w.Fatal(err)
	}
	for _, file := range children {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(raw)) {
			args, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if err == nil && strings.HasSuffix(string(args), "\x00door\x00") {
				pid, _ := strconv.Atoi(child)
				return pid
			}
		}
	}
	return 0
}

// LogCarrier is the process ID of the node's log carrier, 0 when there is none.
func (c *Containers) LogCarrier() int {
	raw, err := os.ReadFile(filepath.Join(c.runDir, "log", "pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	if pid > 0 && unix.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// KillContainerd kills the node's own containerd and returns when a new one runs, or, without a running
// agent, when it is gone.
func (c *Containers) KillContainerd() {
	c.tb.Helper()
	c.killOne("containerd", c.Containerd, c.agentRuns())
}

// KillLogCarrier does the same with the node's log carrier.
func (c *Containers) KillLogCarrier() {
	c.tb.Helper()
	c.killOne("the log carrier", c.LogCarrier, c.agentRuns())
}

func (c *Containers) killOne(what string, pid func() int, again bool) {
	c.tb.Helper()
	was := pid()
	if was == 0 {
		c.tb.Fatalf("%s of %s doesn't run", what, c.node)
	}
	if err := unix.Kill(was, unix.SIGKILL); err != nil {
		c.tb.Fatal(err)
	}
	c.until(Soon, what+" of "+c.node+" is another one", func() bool {
		now := pid()
		return now != was && (now != 0 || !again)
	})
}

// KillTask kills all of r's container's processes.
func (c *Containers) KillTask(r *workload.Reservation) {
	c.tb.Helper()
	c.containerd(func(ctx context.Context, it *client.Client) error {
		ctx, one, err := find(ctx, it, r.ID)
		if err != nil {
			return err
		}
		task, err := one.Task(ctx, nil)
		if err != nil {
			return err
		}
		return task.Kill(ctx, unix.SIGKILL, client.WithKillAll)
	})
}

// DeleteContainer kills r's container and removes it from containerd, unknown to the node. It tries
// again when the node starts the container anew between the kill and the removal.
func (c *Containers) DeleteContainer(r *workload.Reservation) {
	c.tb.Helper()
	c.containerd(func(ctx context.Context, it *client.Client) error {
		for {
			err := deleteContainer(ctx, it, r.ID)
			// The shim gives its own error no kind: a busy machine hasn't ended the killed process yet.
			again := errdefs.IsFailedPrecondition(err) || err != nil && strings.Contains(err.Error(), "cannot delete a running process")
			if !again || ctx.Err() != nil {
				return err
			}
		}
	})
}

func deleteContainer(ctx context.Context, it *client.Client, id string) error {
	ctx, one, err := find(ctx, it, id)
	if err != nil {
		return err
	}
	if task, err := one.Task(ctx, nil); err == nil {
		_, err := task.Delete(ctx, client.WithProcessKill)
		if err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	if err := one.Delete(ctx); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

// find returns the container of that ID, and the context of its namespace.
func find(ctx context.Context, c *client.Client, id string) (context.Context, client.Container, error) {
	all, err := c.NamespaceService().List(ctx)
	if err != nil {
		return ctx, nil, err
	}
	for _, name := range all {
		within := namespaces.WithNamespace(ctx, name)
		one, err := c.LoadContainer(within, id)
		if err == nil {
			return within, one, nil
		}
	}
	return ctx, nil, errors.New("containerd has no container " + id)
}

// containerd calls use with a client of the node's own containerd.
func (c *Containers) containerd(use func(ctx context.Context, it *client.Client) error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	it, err := client.New(c.ContainerdSocket())
	if err == nil {
		defer it.Close()
		err = use(ctx, it)
	}
	if err != nil {
		c.tb.Fatalf("containerd of %s: %v", c.node, err)
	}
}

// Unpin unmounts the file that holds the network namespace of r's container.
func (c *Containers) Unpin(r *workload.Reservation) {
	c.tb.Helper()
	info, _ := c.ContainerStatus(r)
	if err := unix.Unmount(info.Namespace, unix.MNT_DETACH); err != nil {
		c.tb.Fatalf("cannot unmount %q: %v", info.Namespace, err)
	}
}

// Unplug removes the link of r's container.
func (c *Containers) Unplug(r *workload.Reservation) {
	c.tb.Helper()
	info, _ := c.ContainerStatus(r)
	if out, err := Command(info.Namespace, "ip", "link", "del", "eth0"); err != nil {
		c.tb.Fatalf("%v: %s", err, out)
	}
}
