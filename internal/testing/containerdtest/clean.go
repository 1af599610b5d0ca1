package containerdtest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/mounts"
)

// Clean ends the containerd of c, its shims and all of their processes, and unmounts all mounts below
// its folders.
func Clean(t testing.TB, c containerd.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := containerd.TakeDown(ctx, c); err != nil {
		t.Errorf("cannot take the test's containerd down: %v", err)
	}
	groups := map[string]bool{}
	for {
		pids := below(c.RunDir)
		for _, pid := range pids {
			for _, g := range groupsOf(pid) {
				groups[g] = true
			}
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(pids) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Errorf("processes %v of the test's containerd don't end", pids)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	removeGroups(groups)
	Unmount(t, c.RunDir)
	Unmount(t, c.StateDir)
}

// Shims are the process IDs of the shims of the containerd with that run
// folder.
func Shims(runDir string) []int {
	var out []int
	for pid, parts := range processes() {
		if strings.HasPrefix(filepath.Base(parts[0]), "containerd-shim") && slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, runDir+"/") }) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// below are the shims and all their descendants.
func below(runDir string) []int {
	children := map[int][]int{}
	for pid := range processes() {
		if p := parent(pid); p > 1 {
			children[p] = append(children[p], pid)
		}
	}
	out := Shims(runDir)
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// processes are the command lines of all processes that have one.
func processes() map[int][]string {
	out := map[int][]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && len(raw) > 0 {
			out[pid] = strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
		}
	}
	return out
}

func parent(pid int) int {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name is in parentheses and may contain any character.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	p, _ := strconv.Atoi(fields[1])
	return p
}

// groupsOf are the folders of a process's control groups, without those that this process is in.
func groupsOf(pid int) []string {
	mine := map[string]bool{}
	for _, g := range groupFolders("self") {
		mine[g] = true
	}
	return slices.DeleteFunc(groupFolders(strconv.Itoa(pid)), func(g string) bool { return mine[g] })
}

func groupFolders(pid string) []string {
	raw, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[2] == "/" {
			continue
		}
		controllers := strings.TrimPrefix(parts[1], "name=")
		for _, point := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			if controllers != "" {
				point = "/sys/fs/cgroup/" + controllers
			}
			if _, err := os.Stat(point + parts[2]); err == nil {
				out = append(out, point+parts[2])
			}
		}
	}
	return out
}

// removeGroups removes groups, and their parents while these are empty.
func removeGroups(groups map[string]bool) {
	for g := range groups {
		for strings.Count(g, "/") > 4 && os.Remove(g) == nil {
			g = filepath.Dir(g)
		}
		_ = os.Remove(g)
	}
}

// Unmount unmounts all mounts at or below a folder.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	for range 3 { // a mount hidden below another one appears once that is gone
		mounted, err := mounts.Read()
		if err != nil {
			t.Error(err)
			return
		}
		for _, path := range slices.Backward(mounted.Within(dir).Paths()) {
			if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
				t.Errorf("cannot unmount %.200s: %v", path, err)
			}
		}
	}
}
