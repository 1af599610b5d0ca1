package container

import (
	"hash/fnv"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/modules/container/groups"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// Config configures a Module and Streams.
type Config struct {
	// RunDir and StateDir are the node's folders: the first is empty after a reboot. All users must
	// have the right to search RunDir.
	RunDir, StateDir string
	// Containerd says which containerd is used; its folders are filled in.
	Containerd containerd.Config
	// Logs says how the log carrier is started and how much it keeps; its
	// RunDir is filled in.
	Logs logs.Config
	// Image says how images are pulled and how long they are kept; its needs
	// of containerd and of the containers are filled in.
	Image image.Config
	// Init is the path of croft's own PID 1, a static program; empty where it
	// isn't installed.
	Init string
	// CgroupParent is the control group of all containers, such as "/croft";
	// empty for one of this RunDir's own.
	CgroupParent string
	// Reserve is how much of the machine's memory all containers together leave to
	// the node, in bytes; 0 sets no ceiling.
	Reserve uint64
	// PIDs and IOWeight are limits of each container, 0 for the defaults.
	PIDs, IOWeight uint64
	// Rate limits each user's container's use of each disk in a second.
	Rate cgroup.Rate
	Log  zerolog.Logger
}

var groupForm = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.RunDir) || !filepath.IsAbs(c.StateDir):
		return node.Errorf(node.Invalid, "cannot open the container module: RunDir is %q and StateDir %q, must be absolute paths", c.RunDir, c.StateDir)
	case c.Init != "" && !filepath.IsAbs(c.Init):
		return node.Errorf(node.Invalid, "cannot open the container module: Init is %q, must be an absolute path", c.Init)
	case c.CgroupParent != "" && (!groupForm.MatchString(c.CgroupParent) || strings.Contains(c.CgroupParent, "/.")):
		return node.Errorf(node.Invalid, "cannot open the container module: CgroupParent is %q, must be a path such as /croft", c.CgroupParent)
	}
	return nil
}

// lock keeps other modules, and TakeDown, from the containers of RunDir. Busy when one of them has it.
func (c Config) lock() (*filelock.Lock, error) {
	lock, err := filelock.Try(filepath.Join(c.RunDir, "container.lock"))
	switch {
	case filelock.Held(err) != nil:
		return nil, node.Errorf(node.Busy, "cannot use the containers of %s: a container module is running on them", c.RunDir)
	case err != nil:
		return nil, node.Errorf(node.Internal, "cannot lock the containers: %w", err)
	}
	return lock, nil
}

func (c Config) withDefaults() Config {
	c.Containerd.RunDir, c.Containerd.StateDir = c.RunDir, c.StateDir
	c.Logs.RunDir = c.RunDir
	if c.Logs.Dir == "" {
		c.Logs.Dir = filepath.Join(c.StateDir, "logs")
	}
	if c.CgroupParent == "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(filepath.Clean(c.RunDir)))
		c.CgroupParent = "/croft-" + strconv.FormatUint(uint64(h.Sum32()), 16)
	}
	c.Containerd.Shims = c.groups().ShimPath()
	return c
}

// records is the store of the containers' records.
func (c Config) records() managed.Store {
	return managed.Store{Dir: filepath.Join(c.RunDir, "supervised"), Log: c.Log}
}

// execs runs programs in the containers.
func (c Config) execs() execs.Runner {
	return execs.Runner{Dir: filepath.Join(c.RunDir, "exec"), Confine: spec.KeepProfile, Log: c.Log}
}

// groups are the control groups of the containers.
func (c Config) groups() groups.Groups { return groups.Groups{Parent: c.CgroupParent, Log: c.Log} }

// index finds the containers in a containerd.
func (c Config) index(d tasks.Daemon) tasks.Index {
	return tasks.Index{Daemon: d, LikelyUser: c.records().User}
}

// runcDir is the folder of runc's state.
func (c Config) runcDir() string { return filepath.Join(c.RunDir, "container", "runc") }

// wrapper is the path of the script that containerd starts as the runtime. It isn't in the run folder, which
// often is mounted noexec.
func (c Config) wrapper() string { return filepath.Join(c.StateDir, "runc") }
