// Package health serves a node's health over HTTP: /healthz reports whether the process lives and its
// engine turns, /readyz whether it takes new reservations and its problems, /metrics the numbers. It is read-only and decides
// nothing.
package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	mirrorset "github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// awayAfter is how long the explorer may be silent before that is a warning.
const awayAfter = 5 * time.Minute

// Judge derives readiness for new reservations from a status. Running workloads are kept whatever the
// result.
func Judge(s nodestatus.Status, now time.Time, modules []module.Descriptor) host.ReadinessSpec {
	checks := []host.Check{started(s), store(s.Store), birth(s.Store), mirrors(s.Mirrors, now), clock(s.Clock), explorer(s, now), bus(s, modules), kernel(s)}
	for _, m := range modules {
		if m.Check != nil {
			checks = append(checks, ofModule(m, s))
		}
	}
	checks = append(checks, delivery(s), orphans(s), settings(s), sockets(s))
	ready := true
	for _, c := range checks {
		ready = ready && c.Level != host.Failing
	}
	return host.ReadinessSpec{Ready: ready, Checks: checks}
}

// ofModule is a module's own check. What a module that doesn't answer has told before says nothing.
func ofModule(m module.Descriptor, s nodestatus.Status) host.Check {
	c := m.Check(s)
	for _, is := range s.Modules {
		switch {
		case is.Name != m.Bus || c.Level == host.Failing:
		case is.Phase == string(module.Disabled):
			return host.Pass(c.Name, "the module is switched off")
		case is.Error != "":
			return host.Pass(c.Name, "nothing is known while the module doesn't answer") // the check of the bus warns
		}
	}
	return c
}

func started(s nodestatus.Status) host.Check {
	if !s.Adopted {
		return host.Fail("restore", "the workloads of the store are still being restored")
	}
	return host.Pass("restore", "the workloads of the store were restored")
}

func store(s host.StoreSpec) host.Check {
	if n := len(s.Quarantined); n > 0 {
		return host.Warn("store", fmt.Sprintf("%d files could not be read and are in quarantine: %s", n, cell.Some(s.Quarantined)))
	}
	return host.Pass("store", "every file could be read")
}

func birth(s host.StoreSpec) host.Check {
	born := "at a time that isn't known yet"
	if !s.Born.IsZero() {
		born = "at " + s.Born.UTC().Format(time.RFC3339)
	}
	if s.AcceptOlder {
		return host.Pass("birth", "the store was made "+born+"; older reservations are accepted")
	}
	return host.Warn("birth", "the store was made "+born+"; older reservations are refused until `croftd store accept-older`")
}

// mirrors never fails: the store is the truth without them.
func mirrors(all []host.MirrorSpec, now time.Time) host.Check {
	var faults []string
	for _, m := range all {
		switch {
		case m.Error != "":
			faults = append(faults, fmt.Sprintf("%s is %d files behind: %s", m.Instance, m.Lag, m.Error))
		case !m.Oldest.IsZero() && now.Sub(m.Oldest) > mirrorset.BehindAfter:
			faults = append(faults, fmt.Sprintf("%s is %d files behind: the first of them changed %s ago", m.Instance, m.Lag, now.Sub(m.Oldest).Round(time.Second)))
		case !m.Complete:
			faults = append(faults, m.Instance+" doesn't have the whole store yet")
		case m.Unfit > 0:
			faults = append(faults, fmt.Sprintf("%s lacks %d files that can't be mirrored", m.Instance, m.Unfit))
		}
	}
	switch {
	case len(all) == 0:
		return host.Pass("mirrors", "the store has no mirror")
	case len(faults) > 0:
		return host.Warn("mirrors", strings.Join(faults, "; "))
	}
	return host.Pass("mirrors", fmt.Sprintf("%d have the store", len(all)))
}

func clock(c host.ClockSpec) host.Check {
	if !c.Trusted {
		return host.Warn("clock", "the clock isn't trusted, nothing is expired or refused by it: "+c.Why)
	}
	return host.Pass("clock", fmt.Sprintf("the clock is trusted: level %s, from %s", c.Level, c.Source))
}

func explorer(s nodestatus.Status, now time.Time) host.Check {
	e := s.Explorer
	switch {
	case e.URL == "":
		return host.Warn("explorer", "no explorer is configured: no new reservations can arrive")
	case e.LastContact == nil && e.LastError == "":
		return host.Warn("explorer", "the explorer hasn't answered yet")
	case e.LastContact == nil:
		return host.Warn("explorer", "no contact since the start: "+e.LastError)
	case e.LastError != "" || now.Sub(*e.LastContact) > awayAfter:
		return host.Warn("explorer", fmt.Sprintf("last contact %s ago: %s", now.Sub(*e.LastContact).Round(time.Second), e.LastError))
	}
	return host.Pass("explorer", "in contact")
}

// bus fails where a module doesn't answer that the node can't be without: without one of the others, only the types of workloads wait that
// need it.
func bus(s nodestatus.Status, modules []module.Descriptor) host.Check {
	optional := map[string]bool{}
	for _, m := range modules {
		optional[m.Bus] = len(m.Serves) > 0
	}
	var silent, off []string
	level := host.Warn
	for _, m := range s.Modules {
		switch {
		case m.Phase == string(module.Disabled):
			off = append(off, m.Name)
		case m.Error != "":
			silent = append(silent, m.Name+" ("+m.Error+")")
			if !optional[m.Name] {
				level = host.Fail
			}
		}
	}
	switch {
	case len(silent) > 0:
		return level("bus", "modules that don't answer: "+strings.Join(silent, ", "))
	case len(off) > 0:
		return host.Pass("bus", "every module answers but those that are switched off: "+strings.Join(off, ", "))
	}
	return host.Pass("bus", "every module answers")
}

// kernel never fails: what a lacking feature stops, its module refuses.
func kernel(s nodestatus.Status) host.Check {
	var missing, degraded []string
	tried := true
	for _, m := range s.Modules {
		if m.Kernel == nil {
			continue
		}
		tried = tried && m.Kernel.Tried
		for _, l := range m.Kernel.Lacks {
			if l.State == node.KernelMissing {
				missing = append(missing, l.Feature+" ("+l.Effect+")")
			} else {
				degraded = append(degraded, l.Feature)
			}
		}
	}
	switch {
	case len(missing) > 0:
		return host.Warn("kernel", "the kernel lacks: "+cell.Some(missing))
	case !tried:
		return host.Pass("kernel", "not all that croft uses was tried yet")
	case len(degraded) > 0:
		return host.Pass("kernel", "it has all that croft needs, and lacks what croft does without: "+cell.Some(degraded))
	}
	return host.Pass("kernel", "it has all that croft uses")
}

func delivery(s nodestatus.Status) host.Check {
	if s.Undelivered > 0 {
		return host.Warn("results", fmt.Sprintf("%d results wait for the explorer", s.Undelivered))
	}
	return host.Pass("results", "the explorer has every result")
}

func settings(s nodestatus.Status) host.Check {
	if len(s.NeedsRestart) > 0 {
		return host.Warn("settings", "changed settings that need a restart of croftd: "+strings.Join(s.NeedsRestart, ", "))
	}
	return host.Pass("settings", "all that were read are in force")
}

// sockets never fails: workloads and the explorer need none of the operator's sockets.
func sockets(s nodestatus.Status) host.Check {
	if len(s.Unserved) > 0 {
		return host.Warn("sockets", "not served, tried again: "+strings.Join(s.Unserved, "; "))
	}
	return host.Pass("sockets", "the state socket and the debug socket are served")
}

func orphans(s nodestatus.Status) host.Check {
	if len(s.Orphans) == 0 {
		return host.Pass("orphans", "everything with croft's label has a record")
	}
	ids := make([]string, 0, len(s.Orphans))
	for _, orphan := range s.Orphans {
		ids = append(ids, string(orphan.Type)+" "+orphan.ID)
	}
	return host.Warn("orphans", fmt.Sprintf("%d have a label and no record: %s", len(ids), cell.Some(ids)))
}
