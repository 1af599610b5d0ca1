package leftovers

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// bundleThere matches containerd's error when the bundle that it makes for a task exists: it was
// killed while it made it, and the next containerd doesn't know whose it is.
var bundleThere = regexp.MustCompile(`mkdir (/\S+): file exists`)

// bundleIn is the bundle that an error of containerd names, if it is this container's.
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

const (
	// lookPause is the time between two looks for the processes of a bundle.
	lookPause = 20 * time.Millisecond
	// exitTime is the time that a shim has to exit by itself after containerd has removed its bundle.
	// It sends its last events meanwhile.
	exitTime = 5 * time.Second
	// removeTime bounds how long a bundle is removed that is still written to.
	removeTime = 5 * time.Second
)

// killIn kills the node's own processes that run in a bundle, once they have had that much time to exit, and
// reports whether it killed any. It returns when there are none left. A runc that creates a container has
// another working folder: it ends with its shim.
func killIn(ctx context.Context, bundle string, grace time.Duration) (killed bool, err error) {
	begun := time.Now()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		left := processesIn(bundle)
		if len(left) == 0 {
			return killed, nil
		}
		if time.Since(begun) >= grace {
			killed = true
			for _, pid := range left {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		select {
		case <-ctx.Done():
			return killed, node.Errorf(node.Transient, "cannot end the processes in %s: %w", bundle, ctx.Err())
		case <-tick.C:
		}
	}
}

// remove removes the folder of a task that was being made. Whoever was making it may still be writing there: a shim is ended, containerd is
// waited for, for up to removeTime.
func remove(ctx context.Context, bundle string) error {
	for begun := time.Now(); ; {
		err := os.RemoveAll(bundle)
		if !errors.Is(err, unix.ENOTEMPTY) || time.Since(begun) >= removeTime {
			return err
		}
		if _, err := killIn(ctx, bundle, 0); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lookPause):
		}
	}
}

// processesIn lists the node's own processes whose working folder is a bundle, or was until containerd
// removed it.
func processesIn(bundle string) []int {
	bundle = resolved(bundle)
	var out []int
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid <= 1 {
			continue
		}
		process := filepath.Join("/proc", entry.Name())
		at, err := os.Readlink(filepath.Join(process, "cwd"))
		if err == nil && isBundle(at, bundle) && ofTheNode(process) {
			out = append(out, pid)
		}
	}
	return out
}

// resolved is a path without symbolic links, such as /var/run, as the kernel shows working folders. Its last
// elements may be missing.
func resolved(path string) string {
	dir, base := filepath.Split(filepath.Clean(path))
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if base == "" || dir == "" {
		return path
	}
	return filepath.Join(resolved(dir), base)
}

// isBundle reports whether a working folder, as the kernel shows it, is a bundle. containerd removes a bundle
// by renaming it to ".ID" first; when the making of a task is cancelled it does so without ending the shim
// (found with containerd 1.6.20).
func isBundle(at, bundle string) bool {
	at = strings.TrimSuffix(at, " (deleted)")
	return at == bundle || at == filepath.Join(filepath.Dir(bundle), "."+filepath.Base(bundle))
}

// ofTheNode reports whether a process, given by its folder in /proc, is in the user namespace of this one.
// Containers have their own: a container may make a folder of any name and work there.
func ofTheNode(process string) bool {
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return false
	}
	in, err := os.Readlink(filepath.Join(process, "ns/user"))
	return err == nil && in == own
}
