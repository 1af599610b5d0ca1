package container

import (
	"hash/fnv"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// Config is what a Module and Streams are made of.
type Config struct {
	// RunDir and StateDir are the node's folders: what need not, and what has to
	// survive a reboot. Everybody must be able to walk through RunDir.
	RunDir, StateDir string
	// Containerd says which containerd is used; its folders are filled in.
	Containerd containerd.Config
	// Logs says how the log carrier is started and how much it keeps; its
	// RunDir is filled in.
	Logs logs.Config
	// Image says how images are pulled and how long they are kept; what it needs
	// of containerd and of the containers is filled in.
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
	// Rate is what each user's container may do with each disk in a second.
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
	c.Containerd.Shims = c.shims()
	return c
}

func (c Config) supervised() string { return filepath.Join(c.RunDir, "supervised") }
func (c Config) runc() string       { return filepath.Join(c.RunDir, "container", "runc") }
func (c Config) execs() string      { return filepath.Join(c.RunDir, "exec") }

// group is the control group of a container.
func (c Config) group(id string) string { return c.CgroupParent + "/" + id }

// shims is the control group of what containerd starts for each container: it counts
// with containers, so that many of them don't take what containerd may have. No
// container's ID begins so.
func (c Config) shims() string { return c.CgroupParent + "/.shims" }
