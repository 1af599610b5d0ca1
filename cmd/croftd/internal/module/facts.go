package module

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Facts are what modules' constraints are about.
type Facts struct {
	// Kernel is the kernel's release, such as "6.1.0-18-amd64".
	Kernel string
}

// Unmet is a constraint that isn't met.
type Unmet struct {
	// What is needed, such as "kernel 5.19 or newer", and what there is instead.
	What, Is string
}

// String says both.
func (u Unmet) String() string { return u.What + " is needed, this is " + u.Is }

// ReadFacts reads the machine's.
func ReadFacts() (Facts, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Facts{}, errors.Wrap(err, "cannot read the kernel's release")
	}
	return Facts{Kernel: unix.ByteSliceToString(name.Release[:])}, nil
}

// NeedsKernel is unmet by a kernel that is older than a release. One whose release can't be read meets it.
func (f Facts) NeedsKernel(major, minor int) []Unmet {
	var has, hasMinor int
	if n, _ := fmt.Sscanf(f.Kernel, "%d.%d", &has, &hasMinor); n != 2 || has > major || has == major && hasMinor >= minor {
		return nil
	}
	return []Unmet{{fmt.Sprintf("kernel %d.%d or newer", major, minor), f.Kernel}}
}

// unmetText lists constraints.
func unmetText(all []Unmet) string {
	texts := make([]string, len(all))
	for i, u := range all {
		texts[i] = u.String()
	}
	return strings.Join(texts, "; ")
}
