package identity

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/croft-edge/croft/pkg/node"
)

// monitor tells the version.
type monitor struct{ m *Module }

// Version tells the version once: it can't change while the process lives, and the
// next process tells its own. It tells it again when Config.Again says so.
func (o monitor) Version(ctx context.Context) <-chan node.Version {
	return told(ctx, o.m.version, o.m.again(ctx, node.VersionObjectVersion))
}

// seedMonitor tells the version in the seed's layout.
type seedMonitor struct{ m *Module }

// Version is monitor's Version.
func (o seedMonitor) Version(ctx context.Context) <-chan node.SeedVersion {
	return told(ctx, seedVersion(o.m.version.Version), o.m.again(ctx, node.SeedVersionObjectVersion))
}

// told is a stream of v: once, and again each time that again yields.
func told[T any](ctx context.Context, v T, again <-chan struct{}) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		for {
			select {
			case out <- v:
			case <-ctx.Done():
				return
			}
			select {
			case <-again:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// seedVersion reads a version as git describe gives it, such as v1.2.0-3-gabc. What
// is no semantic version, such as a commit, is a pre-release of 0.0.0.
func seedVersion(text string) node.SeedVersion {
	v := "v" + strings.TrimPrefix(text, "v")
	if !semver.IsValid(v) || !strings.Contains(v, ".") {
		return node.SeedVersion{Pre: []node.SeedPreRelease{{VersionStr: identifier(text)}}}
	}
	var out node.SeedVersion
	numbers := strings.Split(strings.TrimPrefix(strings.TrimSuffix(semver.Canonical(v), semver.Prerelease(v)), "v"), ".")
	for i, to := range []*uint64{&out.Major, &out.Minor, &out.Patch} {
		// Numbers are digits only; one beyond 64 bits is the largest.
		*to, _ = strconv.ParseUint(numbers[i], 10, 64)
	}
	for _, part := range parts(semver.Prerelease(v)) {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			out.Pre = append(out.Pre, node.SeedPreRelease{VersionStr: part})
			continue
		}
		out.Pre = append(out.Pre, node.SeedPreRelease{VersionNum: n, IsNum: true})
	}
	out.Build = parts(semver.Build(v))
	return out
}

// parts are those between dots, without the sign before them.
func parts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text[1:], ".")
}

// identifier is text with only what a pre-release may have.
func identifier(text string) string {
	kept := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, text)
	if kept == "" {
		return "unknown"
	}
	return kept
}
