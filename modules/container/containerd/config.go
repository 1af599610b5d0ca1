package containerd

import (
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// Config says which containerd is used. A machine may have several of croft's own: each has
// its folders.
type Config struct {
	// Address is the socket of a running containerd. Empty: the one that this node used
	// before; else the system's, if it answers and isn't too old; else croft's own.
	Address string
	// Own allows croft's own containerd only.
	Own bool
	// Binary is the program of croft's own; empty: "containerd" in the PATH.
	Binary string
	// RunDir and StateDir are the node's folders: the first is empty after a reboot. All users must
	// have the right to search both.
	RunDir, StateDir string
	// Prefix starts the names of users' namespaces; empty for "croft".
	Prefix string
	// Shims is the path of the shims' control group; empty for containerd's own group.
	Shims string
	// Within is how long containerd may take until it answers; 0 for 2 minutes.
	Within time.Duration
	Log    zerolog.Logger

	// system is the address of the system's containerd; tests change it.
	system string
}

const (
	systemAddress = "/run/containerd/containerd.sock"
	defaultPrefix = "croft"
	defaultWithin = 2 * time.Minute
	// longestSocket is the longest address of a Unix socket, less containerd's suffix for its
	// second socket.
	longestSocket = 107 - len(".ttrpc")
	longestPrefix = 24
)

// prefixForm is the form of a namespace's name in containerd.
var prefixForm = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.RunDir) || !filepath.IsAbs(c.StateDir):
		return node.Errorf(node.Invalid, "cannot use containerd: RunDir is %q and StateDir %q, must be absolute paths", c.RunDir, c.StateDir)
	case c.Address != "" && !filepath.IsAbs(c.Address):
		return node.Errorf(node.Invalid, "cannot use containerd: Address is %q, must be the absolute path of a socket", c.Address)
	case c.Address != "" && c.Own:
		return node.Errorf(node.Invalid, "cannot use containerd: Address is %q and Own is set, only one of them is allowed", c.Address)
	case c.Prefix != "" && (len(c.Prefix) > longestPrefix || !prefixForm.MatchString(c.Prefix)):
		return node.Errorf(node.Invalid, "cannot use containerd: Prefix is %q, must be at most %d letters and digits with single -, _ or . between them", c.Prefix, longestPrefix)
	case len(c.socket()) > longestSocket:
		return node.Errorf(node.Invalid, "cannot use containerd: its socket would be %q, of at most %d characters: choose a shorter RunDir", c.socket(), longestSocket)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Binary == "" {
		c.Binary = "containerd"
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.Within <= 0 {
		c.Within = defaultWithin
	}
	if c.system == "" {
		c.system = systemAddress
	}
	return c
}

func (c Config) run() string       { return filepath.Join(c.RunDir, "containerd") }
func (c Config) state() string     { return filepath.Join(c.StateDir, "containerd") }
func (c Config) root() string      { return filepath.Join(c.state(), "root") }
func (c Config) chosen() string    { return filepath.Join(c.state(), "chosen") }
func (c Config) socket() string    { return filepath.Join(c.run(), "containerd.sock") }
func (c Config) file() string      { return filepath.Join(c.run(), "config.toml") }
func (c Config) startLock() string { return filepath.Join(c.run(), "start.lock") }
func (c Config) log() string       { return filepath.Join(c.run(), "log") }

// group is the name of the control group of these folders' containerd.
func (c Config) group() string {
	return cgroup.Name("containerd", c.run())
}

// makeFolders makes the folders of croft's own containerd. The root of a user namespace must
// have the right to search them.
func (c Config) makeFolders() error {
	for _, dir := range []string{c.run(), c.state(), c.root()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return node.Errorf(node.Internal, "cannot make containerd's folder: %w", err)
		}
	}
	return nil
}
