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
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/workload"
)

// ContainerdSocket is that of the node's own containerd.
func (n *Node) ContainerdSocket() string {
	return filepath.Join(n.RunDir(), "containerd", "containerd.sock")
}

// Containerd is the process ID of the node's own containerd, 0 when there is none.
func (n *Node) Containerd() int {
	conn, err := net.Dial("unix", n.ContainerdSocket())
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

// DoorProcess is the process ID of what reads what is sent to the node's door, 0 when
// there is none.
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
func (n *Node) LogCarrier() int {
	raw, err := os.ReadFile(filepath.Join(n.RunDir(), "log", "pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	if pid > 0 && unix.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// KillContainerd kills the node's own containerd and returns when another
// answers, or when it is gone and the agent isn't there to start one.
func (n *Node) KillContainerd() {
	n.w.Helper()
	n.killOne("containerd", n.Containerd, n.Process != nil && n.Running())
}

// KillLogCarrier kills the node's log carrier, likewise.
func (n *Node) KillLogCarrier() {
	n.w.Helper()
	n.killOne("the log carrier", n.LogCarrier, n.Process != nil && n.Running())
}

func (n *Node) killOne(what string, pid func() int, again bool) {
	n.w.Helper()
	was := pid()
	if was == 0 {
		n.w.Fatalf("%s of %s doesn't run", what, n.name)
	}
	if err := unix.Kill(was, unix.SIGKILL); err != nil {
		n.w.Fatal(err)
	}
	n.w.Until(time.Minute, what+" of "+n.name+" is another one", func() bool {
		now := pid()
		return now != was && (now != 0 || !again)
	})
}

// KillTask kills all of r's container's processes.
func (n *Node) KillTask(r *workload.Reservation) {
	n.w.Helper()
	n.containerd(func(ctx context.Context, c *client.Client) error {
		ctx, one, err := find(ctx, c, r.ID)
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

// DeleteContainer kills r's container and removes it from containerd, behind
// the node's back.
func (n *Node) DeleteContainer(r *workload.Reservation) {
	n.w.Helper()
	n.containerd(func(ctx context.Context, c *client.Client) error {
		ctx, one, err := find(ctx, c, r.ID)
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
	})
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

// containerd speaks to the node's own containerd.
func (n *Node) containerd(use func(ctx context.Context, c *client.Client) error) {
	n.w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(n.ContainerdSocket())
	if err == nil {
		defer c.Close()
		err = use(ctx, c)
	}
	if err != nil {
		n.w.Fatalf("containerd of %s: %v", n.name, err)
	}
}

// Unpin unmounts the file that keeps the network namespace of r's container.
func (n *Node) Unpin(r *workload.Reservation) {
	n.w.Helper()
	info, _ := n.ContainerStatus(r)
	if err := unix.Unmount(info.Namespace, unix.MNT_DETACH); err != nil {
		n.w.Fatalf("cannot unmount %q: %v", info.Namespace, err)
	}
}

// Unplug removes the link of r's container.
func (n *Node) Unplug(r *workload.Reservation) {
	n.w.Helper()
	info, _ := n.ContainerStatus(r)
	if out, err := Command(info.Namespace, "ip", "link", "del", "eth0"); err != nil {
		n.w.Fatalf("%v: %s", err, out)
	}
}
