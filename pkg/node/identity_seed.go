package node

import "context"

// SeedVersionObjectVersion is the version of identityd.monitor whose events have the
// layout of the seed's nodes.
const SeedVersionObjectVersion = "0.0.1"

// SeedVersion is the node's software version, as a semantic version.
type SeedVersion struct {
	Major uint64
	Minor uint64
	Patch uint64
	// Pre are the dot-separated parts after a "-", Build those after a "+".
	Pre   []SeedPreRelease
	Build []string
}

// SeedPreRelease is one part of a pre-release: a number or a text.
type SeedPreRelease struct {
	VersionStr string
	VersionNum uint64
	IsNum      bool
}

// SeedVersionMonitor is VersionMonitor in the seed's layout. Bus:
// identityd.monitor@0.0.1.
type SeedVersionMonitor interface {
	Version(ctx context.Context) <-chan SeedVersion
}
