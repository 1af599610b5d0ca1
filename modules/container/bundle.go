package container

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// clearLeft removes what no task shows of an earlier start, in which containerd
// was killed: it would be in the way of the next. ctx has the user's namespace.
func (m *Module) clearLeft(ctx context.Context, user, id string) error {
	if err := m.dropHalf(ctx, id); err != nil {
		return err
	}
	if bundle := m.daemon.Bundle(user, id); bundle != "" {
		if err := m.dropBundle(ctx, bundle, m.daemon.NamespaceName(user), id); err != nil {
			return err
		}
	}
	return endGroup(ctx, m.cfg.group(id))
}

// cleared is clearLeft of a container that containerd knows since just now. Where
// nothing is left, as nearly always, containerd needn't be asked for it.
func (m *Module) cleared(ctx context.Context, user, id string) error {
	bundle := m.daemon.Bundle(user, id)
	if bundle == "" { // it isn't known where this containerd makes them
		return m.clearLeft(ctx, user, id)
	}
	if _, err := os.Lstat(bundle); !os.IsNotExist(err) {
		return m.clearLeft(ctx, user, id)
	}
	return endGroup(ctx, m.cfg.group(id))
}

// endGroup ends who is in a control group and those below it, and removes it.
func endGroup(ctx context.Context, path string) error {
	if err := cgroup.End(ctx, path); err != nil {
		return node.Errorf(node.Busy, "cannot end what runs in a container: %w", err)
	}
	return nil
}

// killPause is how long who was killed gets to end.
const killPause = 50 * time.Millisecond

// dropHalf removes what is half made: a shim that containerd was making a task
// with when it was killed. The next containerd has it, but shows no task.
func (m *Module) dropHalf(ctx context.Context, id string) error {
	c, err := m.daemon.Client(ctx)
	if err != nil {
		return err
	}
	_, err = c.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "remove what is half made of container %s", id)
	}
	return nil
}

// bundleThere is what containerd says when the folder that it makes for a task
// is there already: it was killed while it made it, and the next one doesn't
// know whose it is.
var bundleThere = regexp.MustCompile(`mkdir (/\S+): file exists`)

// bundleIn is the folder that an answer of containerd names, if it is that of
// this container.
func bundleIn(err error, namespace, id string) string {
	if err == nil {
		return ""
	}
	found := bundleThere.FindStringSubmatch(err.Error())
	if found == nil || !strings.HasSuffix(found[1], "/io.containerd.runtime.v2.task/"+namespace+"/"+id) {
		return ""
	}
	return found[1]
}

// dropBundle removes the folder of a task that containerd doesn't know, and
// ends what runs from it: the shim and what it has started.
func (m *Module) dropBundle(ctx context.Context, bundle, namespace, id string) error {
	if _, err := os.Lstat(bundle); os.IsNotExist(err) {
		return nil
	}
	m.cfg.Log.Warn().Str("id", id).Str("type", "container").Msg("what a containerd that was killed has left is removed")
	if err := killIn(ctx, bundle); err != nil {
		return err
	}
	if err := endGroup(ctx, m.cfg.group(id)); err != nil {
		return err
	}
	mounted, err := mounts.Read()
	if err != nil {
		return node.WithKind(node.Transient, err)
	}
	if left := mounted.Within(bundle); len(left) > 0 {
		return node.Errorf(node.Transient, "cannot remove %s: something is mounted there", bundle)
	}
	for _, dir := range []string{bundle, filepath.Join(m.cfg.runc(), namespace, id)} {
		if err := os.RemoveAll(dir); err != nil {
			return node.Errorf(node.Transient, "cannot remove what is half made of container %s: %w", id, err)
		}
	}
	return nil
}

// killIn kills the processes whose working folder that is, and returns when
// there are none. A runc that creates a container is elsewhere: it ends with its shim.
func killIn(ctx context.Context, dir string) error {
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	for {
		left := 0
		all, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range all {
			if at, err := os.Readlink(link); err != nil || at != dir {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid > 1 {
				left++
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return node.Errorf(node.Transient, "cannot end what runs in %s: %w", dir, ctx.Err())
		case <-tick.C:
		}
	}
}
