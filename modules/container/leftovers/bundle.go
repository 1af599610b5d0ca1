package leftovers

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

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

// killPause is the time between two looks for processes that were killed.
const killPause = 50 * time.Millisecond

// killIn kills the processes whose working folder that is, and returns when
// there are none. A runc that creates a container has another: it ends with its shim.
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
			return node.Errorf(node.Transient, "cannot end the processes in %s: %w", dir, ctx.Err())
		case <-tick.C:
		}
	}
}
