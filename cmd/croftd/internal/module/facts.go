package module

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/nftables"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Facts are what modules' constraints are about: what is known of the machine before anything is made.
type Facts struct {
	// Kernel is the kernel's release, such as "6.1.0-18-amd64".
	Kernel string
	// Memory is the machine's, in bytes; 0 where it isn't known.
	Memory uint64
	// Lacks are the features that the kernel is known not to have.
	Lacks map[Feature]bool
}

// Feature is something that a kernel may be built without.
type Feature string

// The features that modules need.
const (
	Btrfs    Feature = "btrfs"
	Overlay  Feature = "overlay"
	Nftables Feature = "nf_tables"
)

// Unmet is a constraint that isn't met.
type Unmet struct {
	// What is needed, such as "kernel 5.19 or newer", and what there is instead.
	What, Is string
	// Feature is what the kernel lacks; empty where it isn't the kernel's.
	Feature string
}

// String says both.
func (u Unmet) String() string { return u.What + " is needed, this is " + u.Is }

// UnmetError is why a module isn't opened. A module's Open returns one for what shows itself only then, such as the version of a program.
type UnmetError []Unmet

// Error implements error.
func (e UnmetError) Error() string {
	texts := make([]string, len(e))
	for i, u := range e {
		texts[i] = u.String()
	}
	return strings.Join(texts, "; ")
}

// ReadFacts reads the machine's.
func ReadFacts() (Facts, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Facts{}, errors.Wrap(err, "cannot read the kernel's release")
	}
	release := unix.ByteSliceToString(name.Release[:])
	f := Facts{Kernel: release, Lacks: map[Feature]bool{}}
	if info := (unix.Sysinfo_t{}); unix.Sysinfo(&info) == nil {
		f.Memory = info.Totalram * uint64(info.Unit)
	}
	for _, name := range []Feature{Btrfs, Overlay} {
		f.Lacks[name] = lacksFilesystem("/", release, name)
	}
	f.Lacks[Nftables] = lacksNftables()
	return f, nil
}

// lacksFilesystem reports whether a kernel is known to be without a filesystem: it hasn't got it now, and can't load it. root is
// where /proc and /lib/modules are. What can't be read doesn't count against the kernel.
func lacksFilesystem(root, release string, name Feature) bool {
	known, err := os.ReadFile(filepath.Join(root, "proc/filesystems"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(known)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == string(name) {
			return false
		}
	}
	if _, err := os.Stat(filepath.Join(root, "proc/sys/kernel/modprobe")); os.IsNotExist(err) {
		return true // it loads no modules: proc(5)
	}
	loadable, err := os.ReadFile(filepath.Join(root, "lib/modules", release, "modules.dep"))
	return err == nil && !strings.Contains(string(loadable), "/"+string(name)+".ko")
}

// lacksNftables reports whether the kernel doesn't know the subsystem, which it loads when it is asked. No rule is changed.
func lacksNftables() bool {
	c, err := nftables.New()
	if err == nil {
		_, err = c.ListTables()
	}
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
}

// NeedsKernel is unmet by a kernel that is older than a release. One whose release can't be read meets it.
func (f Facts) NeedsKernel(major, minor int) []Unmet {
	var has, hasMinor int
	if n, _ := fmt.Sscanf(f.Kernel, "%d.%d", &has, &hasMinor); n != 2 || has > major || has == major && hasMinor >= minor {
		return nil
	}
	newer := fmt.Sprintf("kernel %d.%d or newer", major, minor)
	return []Unmet{{What: newer, Is: f.Kernel, Feature: newer}}
}

// Needs is unmet by a kernel that lacks a feature.
func (f Facts) Needs(name Feature) []Unmet {
	if !f.Lacks[name] {
		return nil
	}
	return []Unmet{{What: fmt.Sprintf("a kernel with %s", name), Is: f.Kernel + " without it", Feature: string(name)}}
}

// NeedsMemory is unmet by a machine with less, in bytes.
func (f Facts) NeedsMemory(least uint64) []Unmet {
	if f.Memory == 0 || f.Memory >= least {
		return nil
	}
	return []Unmet{{What: fmt.Sprintf("a machine with %d MiB of memory", least>>20), Is: fmt.Sprintf("one with %d MiB", f.Memory>>20)}}
}
