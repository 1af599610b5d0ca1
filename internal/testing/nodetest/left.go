package nodetest

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/cgroup"
)

// vmsSuffix follows a node's control group in the name of that of its VMs.
const vmsSuffix = "-vms"

// Cgroup is the parent control group of the node's containers.
func (n *Node) Cgroup() string { return filepath.Base(n.w.Dir) + "-" + n.name }

// Remains finds the remains of a node on the machine.
type Remains struct {
	tb testing.TB
	// dir is the node's folder, cgroup the parent control group of its containers.
	dir, cgroup string
	volumes     *Volumes
	containers  *Containers
}

// Left lists everything that the node holds for containers, its own and users', for images, volumes,
// networks and zdb's ports, a line each: a failed workload must leave nothing.
func (r *Remains) Left() []string {
	r.tb.Helper()
	out := slices.Concat(r.mountsLeft(), r.groupsLeft(), r.processesLeft())
	for name := range r.volumes.Subvolumes() {
		out = append(out, "volume "+name)
	}
	patterns := []string{filepath.Join(filepath.Join(r.dir, "s"), "zdb/*.json"), filepath.Join(filepath.Join(r.dir, "s"), "zdb/*.damaged")}
	for _, pattern := range []string{"vm/*", "pools/*/vdisks/*", "container/*", "container/runc/*/*", "supervised/*", "log/c/*", "network/netns/*"} {
		patterns = append(patterns, filepath.Join(filepath.Join(r.dir, "r"), pattern))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			r.tb.Fatal(err)
		}
		for _, path := range found {
			if filepath.Base(path) == "runc" {
				continue // runc keeps it for as long as the machine is up
			}
			out = append(out, "file "+r.within(path))
		}
	}
	if r.containers.Containerd() != 0 {
		r.containers.containerd(func(ctx context.Context, c *client.Client) error {
			kept, err := keptBy(ctx, c)
			out = append(out, kept...)
			return err
		})
	}
	slices.Sort(out)
	return out
}

// LeftSince are the lines of Left that aren't in before.
func (r *Remains) LeftSince(before []string) []string {
	r.tb.Helper()
	return slices.DeleteFunc(r.Left(), func(line string) bool { return slices.Contains(before, line) })
}

// within is a path relative to the node's folder.
func (r *Remains) within(path string) string { return strings.TrimPrefix(path, r.dir+"/") }

func (r *Remains) mountsLeft() (out []string) {
	mounts, err := Mounts(r.dir)
	if err != nil {
		r.tb.Fatal(err)
	}
	for _, path := range mounts {
		out = append(out, "mount "+r.within(path))
	}
	return out
}

func (r *Remains) groupsLeft() (out []string) {
	var parents []string
	for _, name := range []string{r.cgroup, r.cgroup + vmsSuffix} {
		found, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
		if err != nil {
			r.tb.Fatal(err)
		}
		parents = append(append(parents, found...), "/sys/fs/cgroup/"+name)
	}
	for _, parent := range parents {
		_ = filepath.WalkDir(parent, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && path != parent && e.Name() != ".shims" {
				out = append(out, "group "+strings.TrimPrefix(path, "/sys/fs/cgroup/"))
			}
			return nil
		})
	}
	return out
}

// removeGroups removes the control groups of the node's own processes, all of which have ended.
func removeGroups(n *Node) {
	for _, part := range []string{"run", "identity", "storage", "monitor", "debug", "network", "container", "zdb", "vm", "provision", "unpack", "door"} {
		removeGroup(n.w, part, n.RunDir())
	}
	// Those of all VMs stay when there is none any more.
	vms, err := cgroup.At("/" + n.Cgroup() + vmsSuffix)
	removeEmpty(n.w, vms, err)
	vms, err = cgroup.Beside(launch.ServiceGroup(machine.Files(filepath.Join(n.RunDir(), "vm", "any"))))
	removeEmpty(n.w, vms, err)
}

// removeGroup removes the control group of an ended process.
func removeGroup(tb testing.TB, part, of string) {
	g, err := cgroup.Beside(cgroup.Name(part, of))
	removeEmpty(tb, g, err)
}

// removeEmpty removes a control group without processes; err is that of finding it.
func removeEmpty(tb testing.TB, g cgroup.Group, err error) {
	if err != nil {
		tb.Error(err)
		return
	}
	g.Remove()
	if g.There() {
		tb.Errorf("control groups stay: %v", g.Folders())
	}
}

// standing are the mounts that containers use. The mounts at the node's two folders themselves are the
// test's.
func (r *Remains) standing() []string {
	return slices.DeleteFunc(r.mountsLeft(), func(line string) bool {
		return line == "mount r" || line == "mount s" || strings.HasPrefix(line, "mount r/pools/") || strings.HasPrefix(line, "mount r/network/")
	})
}

// processesLeft are the shims and their children that make containers.
func (r *Remains) processesLeft() (out []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.tb.Fatal(err)
	}
	for _, entry := range entries {
		pid := entry.Name()
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		file := filepath.Join("/proc", pid, "cmdline")
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		words := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
		name := filepath.Base(words[0])
		ours := slices.ContainsFunc(words[1:], func(word string) bool { return strings.HasPrefix(word, filepath.Join(r.dir, "r")+"/") })
		if ours && (strings.HasPrefix(name, "containerd-shim") || name == "runc") {
			out = append(out, "process "+name+" "+pid)
		}
	}
	return out
}

// keptBy lists the content of all of containerd's namespaces.
func keptBy(ctx context.Context, c *client.Client) (out []string, err error) {
	all, err := c.NamespaceService().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		within := namespaces.WithNamespace(ctx, name)
		note := func(what, id string) { out = append(out, what+" "+name+" "+id) }
		note("namespace", "")
		containers, err := c.ContainerService().List(within)
		if err != nil {
			return nil, err
		}
		for _, one := range containers {
			note("containerd", one.ID)
		}
		images, err := c.ImageService().List(within)
		if err != nil {
			return nil, err
		}
		for _, one := range images {
			note("image", one.Name)
		}
		leases, err := c.LeasesService().List(within)
		if err != nil {
			return nil, err
		}
		for _, one := range leases {
			note("lease", one.ID)
		}
		err = c.SnapshotService("overlayfs").Walk(within, func(_ context.Context, one snapshots.Info) error {
			note("snapshot", one.Name)
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = c.ContentStore().Walk(within, func(one content.Info) error {
			note("content", one.Digest.String())
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
