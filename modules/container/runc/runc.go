// Package runc finds the machine's runc, checks its version, and owns {state}/runc, the
// script by which containerd starts it.
package runc

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Least is the oldest runc that containers are run with, and LeastFor why: in older
// ones a container can reach the node's files by a folder that runc left open
// (CVE-2024-21626). croft's containers can't use the later ones:
// CVE-2024-45310 makes empty files for a container that shares a volume with another one
// that is being started, and the mounts that are redirected in CVE-2025-31133,
// CVE-2025-52565 and CVE-2025-52881 end at files of the node's root, which isn't in
// a container's user namespace. 1.2.8 and 1.3.3 have fixed these too.
const (
	Least    = "1.1.12"
	LeastFor = "CVE-2024-21626, by which a container gets at the node's files"
)

// patched are older versions with a distribution's backport of the fix that Least is for:
// Debian 12's, since DSA-5615-1.
var patched = regexp.MustCompile(`^1\.1\.5\+ds1-1\+deb12u[1-9][0-9]*$`)

// Runc is the machine's runc.
type Runc struct {
	Path, Version string
}

// Find looks for a runc in the PATH. Refused, with the reason, when there is none or
// it is older than Least.
func Find(ctx context.Context, program string) (Runc, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return Runc{}, node.Errorf(node.Refused, "cannot run containers: %w: install runc %s or newer", err, Least)
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Runc{}, node.Errorf(node.Transient, "cannot ask %s for its version: %w", path, err)
	}
	version, commit := versionOf(string(out))
	r := Runc{Path: path, Version: version}
	switch {
	case version == "":
		return r, node.Errorf(node.Refused, "cannot run containers with %s: it says it is %.80q, not a runc", path, out)
	case atLeast(version) || patched.MatchString(commit):
		return r, nil
	}
	return r, node.Errorf(node.Refused, "cannot run containers with %s: it is runc %s, at least %s is needed, or Debian 12's 1.1.5+ds1-1+deb12u1: older ones have %s",
		path, version, Least, LeastFor)
}

// versionOf reads runc's version: "runc version 1.1.5+ds1", "commit: 1.1.5+ds1-1+deb12u1".
func versionOf(said string) (version, commit string) {
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "runc version "); ok && version == "" {
			version = rest
		}
		if rest, ok := strings.CutPrefix(line, "commit: "); ok && commit == "" {
			commit = rest
		}
	}
	return version, commit
}

var numbers = regexp.MustCompile(`^v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})`)

// atLeast reports whether a version is Least or newer; false for a text that is no version.
func atLeast(version string) bool {
	have, least := numbers.FindStringSubmatch(version), numbers.FindStringSubmatch(Least)
	if have == nil {
		return false
	}
	for i := 1; i < len(least); i++ {
		a, _ := strconv.Atoi(have[i])
		b, _ := strconv.Atoi(least[i])
		if a != b {
			return a > b
		}
	}
	return true
}
