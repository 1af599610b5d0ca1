package config

import (
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

func containerSettings() []Setting {
	return []Setting{
		{"containerd", Text, "", "socket of the containerd to use; empty: the system's if it is 1.6 or newer, else croft's own; own: never the system's", groupContainer,
			containerd},
		{"containerd-binary", Text, "", "program of croft's own containerd; empty: the one in the PATH", groupContainer,
			optionalPath(func(c *Config) *string { return &c.Containers.ContainerdBinary })},
		{"init-binary", Text, "", "first process of interactive containers, and starter of those with secrets; empty: croft-init beside croftd", groupContainer,
			optionalPath(func(c *Config) *string { return &c.Containers.InitBinary })},
		{"zdb-binary", Text, "", "zdb's program, static; empty: zdb beside croftd", groupContainer,
			optionalPath(func(c *Config) *string { return &c.Containers.ZDBBinary })},
		{"container-layer", Size, "2GiB", "what a container may write beside its volumes", groupContainer,
			sizeFrom(func(c *Config) *uint64 { return &c.Containers.Layer }, 16<<20, "16MiB")},
		{"container-pids", Number, "4096", "processes and threads that a container may have", groupContainer,
			numberOf(func(c *Config) *uint64 { return &c.Containers.PIDs }, 16, 1<<22)},
		{"container-read-rate", Size, "0", "bytes a second that a container may read from each disk; 0: no limit", groupContainer,
			size(func(c *Config) *uint64 { return &c.Containers.ReadRate })},
		{"container-write-rate", Size, "0", "bytes a second that a container may write to each disk; control groups of version 1 count direct and synchronous writes only; 0: no limit", groupContainer,
			size(func(c *Config) *uint64 { return &c.Containers.WriteRate })},
		{"container-read-ops", Number, "0", "requests a second that a container may read by from each disk; 0: no limit", groupContainer,
			numberOf(func(c *Config) *uint64 { return &c.Containers.ReadOps }, 0, math.MaxUint32)},
		{"container-write-ops", Number, "0", "requests a second that a container may write by to each disk, as container-write-rate; 0: no limit", groupContainer,
			numberOf(func(c *Config) *uint64 { return &c.Containers.WriteOps }, 0, math.MaxUint32)},
		{"container-without", List, "", "what users' new containers must ask to do without: read_only, no_capabilities, non_root; empty: nothing", groupContainer,
			without},
		{"container-cgroup", Text, "croft", "control group that those of containers are made in", groupContainer,
			cgroup(func(c *Config) *string { return &c.Containers.Cgroup })},
		{"log-size", Size, "10MiB", "size of a container's log file before the next one is begun", groupContainer,
			sizeFrom(func(c *Config) *uint64 { return &c.Containers.LogSize }, 128<<10, "128KiB")},
		{"log-files", Number, "2", "log files that are kept of a container", groupContainer,
			numberOf(func(c *Config) *uint64 { return &c.Containers.LogFiles }, 2, 1000)},
	}
}

func imageSettings() []Setting {
	return []Setting{
		{"image-paths", List, "", "folders from which users may name OCI layouts and tars; empty: none", groupContainer,
			folders(func(c *Config) *[]string { return &c.Containers.ImagePaths })},
		{"image-plain-http", List, "", "registries that are spoken to without TLS, as host or host:port", groupContainer,
			hosts(func(c *Config) *[]string { return &c.Containers.PlainHTTP })},
		{"max-image-size", Size, "10GiB", "the largest image, as it lies on the disk", groupContainer,
			sizeFrom(func(c *Config) *uint64 { return &c.Containers.MaxImage }, 1<<20, "1MiB")},
		{"max-user-images", Size, "20GiB", "what one user's images may take at a time, on the disk", groupContainer,
			sizeFrom(func(c *Config) *uint64 { return &c.Containers.UserImages }, 1<<20, "1MiB")},
		{"image-full", Number, "80", "percent of the disk of images above which those go that nothing uses", groupContainer,
			numberOf(func(c *Config) *uint64 { return &c.Containers.ImageFull }, 1, 100)},
		{"image-unused", Duration, "336h", "how long an image is kept that nothing uses", groupContainer,
			duration(func(c *Config) *durationValue { return &c.Containers.ImageUnused })},
	}
}

// without reads the names of members of a container's data.
func without(c *Config, text string) error {
	known := []string{"read_only", "no_capabilities", "non_root"}
	c.Containers.Without = nil
	for _, name := range split(text) {
		if !slices.Contains(known, name) {
			return errors.Errorf("any of %s; %q isn't one", strings.Join(known, ", "), name)
		}
		c.Containers.Without = append(c.Containers.Without, name)
	}
	return nil
}

// own is the value that asks for croft's own containerd.
const own = "own"

func containerd(c *Config, text string) error {
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

func sizeFrom(field func(*Config) *uint64, least uint64, shown string) setter {
	return func(c *Config, text string) error {
		n, err := ParseSize(text)
		if err != nil || n < least {
			return errors.Errorf("at least %s, a whole number with B, KiB, MiB, GiB or TiB", shown)
		}
		*field(c) = n
		return nil
	}
}

func numberOf(field func(*Config) *uint64, least, most uint64) setter {
	return func(c *Config, text string) error {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n < least || n > most {
			return errors.Errorf("a whole number of %d to %d", least, most)
		}
		*field(c) = n
		return nil
	}
}

// groupForm is a control group below the root, one name or several.
func groupForm() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,7}$`)
}

func cgroup(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if !groupForm().MatchString(text) {
			return errors.New("names of letters, digits, dots and dashes, with / between them and not before the first")
		}
		*field(c) = text
		return nil
	}
}

// folders are paths of which / isn't one: all that is on the node would be.
func folders(field func(*Config) *[]string) setter {
	return func(c *Config, text string) error {
		if err := paths(field)(c, text); err != nil {
			return err
		}
		for _, item := range *field(c) {
			if item == "/" {
				return errors.New("folders other than /")
			}
		}
		return nil
	}
}

// hostForm is a name in DNS.
func hostForm() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)
}

func hosts(field func(*Config) *[]string) setter {
	return func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range split(text) {
			if !isHost(item) {
				return errors.Errorf("hosts such as registry.example.org or 192.168.7.9:5000; %q isn't one", item)
			}
			*field(c) = append(*field(c), item)
		}
		return nil
	}
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
