package container

import (
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// settings are those of the module.
func settings() []config.Setting {
	return config.InGroup("Containers", []config.Setting{
		{Name: "containerd", Kind: config.Text, Default: "", Help: "socket of the containerd to use; empty: the system's if it is 1.6 or newer, else croft's own; own: never the system's", ReadBy: []string{config.Process},
			Set: config.Matching(`(/.*|own)?`, containerdSocket)},
		{Name: "containerd-binary", Kind: config.Text, Default: "", Help: "program of croft's own containerd; empty: the one in the PATH", ReadBy: []string{config.Process},
			Set: config.SetOptionalPath(func(c *config.Config) *string { return &c.Containers.ContainerdBinary })},
		{Name: "init-binary", Kind: config.Text, Default: "", Help: "first process of interactive containers, and starter of those with secrets; empty: croft-init beside croftd",
			Set: config.SetOptionalPath(func(c *config.Config) *string { return &c.Containers.InitBinary })},
		{Name: "zdb-binary", Kind: config.Text, Default: "", Help: "zdb's program, static; empty: zdb beside croftd",
			Set: config.SetOptionalPath(func(c *config.Config) *string { return &c.Containers.ZDBBinary })},
		{Name: "container-layer", Kind: config.Size, Default: "2GiB", Help: "space for a container's files outside of its volumes", ReadBy: []string{config.Process},
			Set: config.SetSizeFrom(func(c *config.Config) *uint64 { return &c.Containers.Layer }, 16<<20, "16MiB")},
		{Name: "container-pids", Kind: config.Number, Default: "4096", Help: "processes and threads that a container may have",
			Set: config.SetNumberIn(func(c *config.Config) *uint64 { return &c.Containers.PIDs }, 16, 1<<22)},
		{Name: "container-read-rate", Kind: config.Size, Default: "0", Help: "bytes a second that a container may read from each disk; 0: no limit",
			Set: config.SetSize(func(c *config.Config) *uint64 { return &c.Containers.ReadRate })},
		{Name: "container-write-rate", Kind: config.Size, Default: "0", Help: "bytes a second that a container may write to each disk; control groups of version 1 count direct and synchronous writes only; 0: no limit",
			Set: config.SetSize(func(c *config.Config) *uint64 { return &c.Containers.WriteRate })},
		{Name: "container-read-ops", Kind: config.Number, Default: "0", Help: "requests a second that a container may read by from each disk; 0: no limit",
			Set: config.SetNumberIn(func(c *config.Config) *uint64 { return &c.Containers.ReadOps }, 0, math.MaxUint32)},
		{Name: "container-write-ops", Kind: config.Number, Default: "0", Help: "requests a second that a container may write by to each disk, as container-write-rate; 0: no limit",
			Set: config.SetNumberIn(func(c *config.Config) *uint64 { return &c.Containers.WriteOps }, 0, math.MaxUint32)},
		{Name: "container-send-rate", Kind: config.Size, Default: "0", Help: "bytes a second that a container may send on each of its network interfaces; 0: no limit", ReadBy: []string{"network"},
			Set: rate(func(c *config.Config) *uint64 { return &c.Containers.SendRate })},
		{Name: "container-receive-rate", Kind: config.Size, Default: "0", Help: "bytes a second that a container may receive on each of its network interfaces; 0: no limit", ReadBy: []string{"network"},
			Set: rate(func(c *config.Config) *uint64 { return &c.Containers.ReceiveRate })},
		{Name: "container-without", Kind: config.List, Default: "", Help: "restrictions that users' new containers must ask for: read_only, no_capabilities, non_root; empty: none", ReadBy: []string{config.Process},
			Set: config.Matching(`read_only|no_capabilities|non_root`, without)},
		{Name: "container-cgroup", Kind: config.Text, Default: "croft", Help: "control group that those of containers are made in", ReadBy: []string{config.Process},
			Set: controlGroup(func(c *config.Config) *string { return &c.Containers.Cgroup })},
		{Name: "log-size", Kind: config.Size, Default: "10MiB", Help: "size of a container's log file before the next one is begun", ReadBy: []string{"container", "vm"},
			Set: config.SetSizeFrom(func(c *config.Config) *uint64 { return &c.Containers.LogSize }, 128<<10, "128KiB")},
		{Name: "log-files", Kind: config.Number, Default: "2", Help: "log files that are kept of a container", ReadBy: []string{"container", "vm"},
			Set: config.SetNumberIn(func(c *config.Config) *uint64 { return &c.Containers.LogFiles }, 2, 1000)},
		{Name: "image-paths", Kind: config.List, Default: "", Help: "folders from which users may name OCI layouts and tars; empty: none",
			Set: folders(func(c *config.Config) *[]string { return &c.Containers.ImagePaths })},
		{Name: "image-plain-http", Kind: config.List, Default: "", Help: "registries, and servers of flists, that are spoken to without TLS, as host or host:port", ReadBy: []string{"container", "vm"},
			Set: hosts(func(c *config.Config) *[]string { return &c.Containers.PlainHTTP })},
		{Name: "max-image-size", Kind: config.Size, Default: "10GiB", Help: "the largest image, as it lies on the disk",
			Set: config.SetSizeFrom(func(c *config.Config) *uint64 { return &c.Containers.MaxImage }, 1<<20, "1MiB")},
		{Name: "max-user-images", Kind: config.Size, Default: "20GiB", Help: "disk space of one user's images at a time",
			Set: config.SetSizeFrom(func(c *config.Config) *uint64 { return &c.Containers.UserImages }, 1<<20, "1MiB")},
		{Name: "image-full", Kind: config.Number, Default: "80", Help: "percent of the disk of images above which those go that nothing uses",
			Set: config.SetNumberIn(func(c *config.Config) *uint64 { return &c.Containers.ImageFull }, 1, 100)},
		{Name: "image-unused", Kind: config.Duration, Default: "336h", Help: "how long an image is kept that nothing uses",
			Set: config.SetDuration(func(c *config.Config) *time.Duration { return &c.Containers.ImageUnused })},
	})
}

// own is the value that selects croft's own containerd.
const own = "own"

// without reads the names of fields of a container's data.
func without(c *config.Config, text string) error {
	known := []string{"read_only", "no_capabilities", "non_root"}
	c.Containers.Without = nil
	for _, name := range config.Split(text) {
		if !slices.Contains(known, name) {
			return errors.Errorf("any of %s; %q isn't one", strings.Join(known, ", "), name)
		}
		c.Containers.Without = append(c.Containers.Without, name)
	}
	return nil
}

func containerdSocket(c *config.Config, text string) error {
	c.Containers.Containerd, c.Containers.OwnContainerd = "", text == own
	switch {
	case text == "" || text == own:
		return nil
	case !filepath.IsAbs(text):
		return errors.New("the absolute path of a socket, own, or empty")
	}
	c.Containers.Containerd = filepath.Clean(text)
	return nil
}

// rate reads a rate that a network link can enforce, or 0 for no limit.
func rate(field func(*config.Config) *uint64) config.Setter {
	return config.Matching(config.SizeForm, func(c *config.Config, text string) error {
		n, err := config.ParseSize(text)
		if err != nil || n != 0 && (n < 64<<10 || n > 1<<40) {
			return errors.New("0 or 64KiB to 1TiB, a whole number with B, KiB, MiB, GiB or TiB")
		}
		*field(c) = n
		return nil
	})
}

// groupForm matches a control group below the root, one name or several.
const groupForm = `[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,7}`

func controlGroup(field func(*config.Config) *string) config.Setter {
	return config.Matching(groupForm, func(c *config.Config, text string) error {
		if !regexp.MustCompile("^" + groupForm + "$").MatchString(text) {
			return errors.New("names of letters, digits, dots and dashes, with / between them and not before the first")
		}
		*field(c) = text
		return nil
	})
}

// folders reads paths other than /, which would expose every file of the node.
func folders(field func(*config.Config) *[]string) config.Setter {
	return config.Matching(`/.*`, func(c *config.Config, text string) error {
		if err := config.SetPaths(field).Parse(c, text); err != nil {
			return err
		}
		for _, item := range *field(c) {
			if item == "/" {
				return errors.New("folders other than /")
			}
		}
		return nil
	})
}

// hostForm matches a DNS name.
func hostForm() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)
}

func hosts(field func(*config.Config) *[]string) config.Setter {
	return config.Parsed(func(c *config.Config, text string) error {
		*field(c) = nil
		for _, item := range config.Split(text) {
			if !isHost(item) {
				return errors.Errorf("hosts such as registry.example.org or 192.168.7.9:5000; %q isn't one", item)
			}
			*field(c) = append(*field(c), item)
		}
		return nil
	})
}

func isHost(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
		text = host
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	return len(text) <= 253 && hostForm().MatchString(text)
}
