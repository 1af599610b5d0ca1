package containerd

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// The oldest containerd that is used.
const (
	leastMajor = 1
	leastMinor = 6
)

// Least is the oldest containerd that is used.
var Least = fmt.Sprintf("%d.%d", leastMajor, leastMinor)

// VersionError is about a containerd that is too old, or says no version.
type VersionError struct {
	// Whose is its program or its socket.
	Whose, Version string
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s is containerd %q, at least %s is needed", e.Whose, e.Version, Least)
}

// checkVersion says why a version isn't used: a VersionError, of kind node.Refused.
func checkVersion(whose, version string) error {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(strings.TrimRight(minor, "-+~abcdefghijklmnopqrstuvwxyz"))
	if errA != nil || errB != nil || a < leastMajor || a == leastMajor && b < leastMinor {
		return node.Errorf(node.Refused, "cannot use a containerd: %w", &VersionError{whose, version})
	}
	return nil
}

// binaryVersion asks a program for its version. Refused when there is none, or
// it is too old.
func binaryVersion(ctx context.Context, binary string) (string, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return "", node.Errorf(node.Refused, "cannot start a containerd: %w: install it, or say where it is", err)
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", node.Errorf(node.Transient, "cannot ask %s for its version: %w", path, err)
	}
	// containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3
	fields := strings.Fields(string(out))
	if len(fields) < 3 || fields[0] != "containerd" {
		return "", node.Errorf(node.Refused, "cannot use %s: it says it is %.80q, not a containerd", path, out)
	}
	return path, checkVersion(path, fields[2])
}
