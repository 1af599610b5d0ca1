package identity

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/croft-edge/croft/pkg/node"
)

// monitor is the module's bus object identityd.monitor.
type monitor struct{ m *Module }

// Version streams the version once, since it can't change while the process lives,
// and again each time that Config.Again yields.
func (o monitor) Version(ctx context.Context) <-chan node.Version {
	return told(ctx, o.m.version, o.m.again(ctx, node.VersionObjectVersion))
}

// seedMonitor is identityd.monitor in the seed's layout.
type seedMonitor struct{ m *Module }

// Version streams as monitor's Version does.
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

// seedVersion parses a version as git describe prints it, such as v1.2.0-3-gabc. Text
// that isn't a semantic version, such as a commit, becomes a pre-release of 0.0.0.
func seedVersion(text string) node.SeedVersion {
	v := "v" + strings.TrimPrefix(text, "v")
	if !semver.IsValid(v) || !strings.Contains(v, ".") {
		return node.SeedVersion{Pre: []node.SeedPreRelease{{VersionStr: identifier(text)}}}
	}
	var out node.SeedVersion
	numbers := strings.Split(strings.TrimPrefix(strings.TrimSuffix(semver.Canonical(v), semver.Prerelease(v)), "v"), ".")
	for i, to := range []*uint64{&out.Major, &out.Minor, &out.Patch} {
		// Numbers are digits only; one beyond 64 bits becomes the largest uint64.
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

// parts splits text at its dots, without its leading '-' or '+'.
func parts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text[1:], ".")
}

// identifier drops the characters of text that a pre-release may not have.
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
