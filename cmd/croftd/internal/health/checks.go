// Package health shows a node from outside over HTTP: /healthz says that the
// process is alive, /readyz whether it takes new reservations and what is
// wrong, /metrics the numbers. It is read-only and decides nothing.
package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/control"
	"github.com/croft-edge/croft/pkg/node"
)

// Level says what a check's outcome means.
type Level string

// The levels. Only Failing makes a node not ready to take new reservations.
const (
	Good    Level = "ok"
	Warning Level = "warning"
	Failing Level = "failing"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
}

// Readiness is what /readyz answers.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// awayAfter is how long the explorer may be silent before that is a warning.
const awayAfter = 5 * time.Minute

// Judge says what a status means for new reservations. What the node already
// runs is kept whatever it says.
func Judge(s control.Status, now time.Time) Readiness {
	checks := []Check{
		started(s), store(s.Store), birth(s.Store), clock(s.Clock), explorer(s, now), bus(s), pools(s.Storage), containers(s.Container), zdb(s.ZDB), delivery(s), orphans(s),
	}
	ready := true
	for _, c := range checks {
		ready = ready && c.Level != Failing
	}
	return Readiness{Ready: ready, Checks: checks}
}

func started(s control.Status) Check {
	if !s.Adopted {
		return Check{"restore", Failing, "what the store knows is still being restored"}
	}
	return Check{"restore", Good, "what the store knows was restored"}
}

func store(s control.Store) Check {
	if n := len(s.Quarantined); n > 0 {
		return Check{"store", Warning, fmt.Sprintf("%d files could not be read and are in quarantine: %s", n, some(s.Quarantined))}
	}
	return Check{"store", Good, "every file could be read"}
}

func birth(s control.Store) Check {
	born := "at a time that isn't known yet"
	if !s.Born.IsZero() {
		born = "at " + s.Born.UTC().Format(time.RFC3339)
	}
	if s.AcceptOlder {
		return Check{"birth", Good, "the store was made " + born + "; older reservations are accepted"}
	}
	return Check{"birth", Warning, "the store was made " + born + "; older reservations are refused until `croftd store accept-older`"}
}

func clock(c control.Clock) Check {
	if !c.Trusted {
		return Check{"clock", Warning, "the clock isn't trusted, nothing is expired or refused by it: " + c.Why}
	}
	return Check{"clock", Good, fmt.Sprintf("the clock is trusted: level %s, from %s", c.Level, c.Source)}
}

func explorer(s control.Status, now time.Time) Check {
	e := s.Explorer
	switch {
	case e.URL == "":
		return Check{"explorer", Warning, "no explorer is configured: nothing new can come"}
	case e.LastContact == nil && e.LastError == "":
		return Check{"explorer", Warning, "the explorer hasn't answered yet"}
	case e.LastContact == nil:
		return Check{"explorer", Warning, "no contact since the start: " + e.LastError}
	case e.LastError != "" || now.Sub(*e.LastContact) > awayAfter:
		return Check{"explorer", Warning, fmt.Sprintf("last contact %s ago: %s", now.Sub(*e.LastContact).Round(time.Second), e.LastError)}
	}
	return Check{"explorer", Good, "in contact"}
}

func bus(s control.Status) Check {
	var silent []string
	for _, m := range s.Modules {
		if m.Error != "" {
			silent = append(silent, m.Name+" ("+m.Error+")")
		}
	}
	if len(silent) > 0 {
		return Check{"bus", Failing, "modules that don't answer: " + strings.Join(silent, ", ")}
	}
	return Check{"bus", Good, "every module answers"}
}

func pools(s control.Storage) Check {
	var broken []string
	for _, p := range s.BrokenPools {
		broken = append(broken, p.Name+" ("+p.Cause+")")
	}
	for _, d := range s.BrokenDevices {
		broken = append(broken, d.Path+" ("+d.Cause+")")
	}
	switch {
	case len(s.Pools) == 0:
		return Check{"pools", Failing, "there is no pool that works: " + strings.Join(broken, ", ")}
	case len(broken) > 0:
		return Check{"pools", Warning, "broken: " + strings.Join(broken, ", ")}
	}
	return Check{"pools", Good, fmt.Sprintf("%d in use", len(s.Pools))}
}

// containers is no reason to take no volume: what runs goes on without
// containerd, and new ones wait for it.
func containers(s node.ContainerStatus) Check {
	switch {
	case s.Error != "":
		return Check{"containers", Warning, "containerd doesn't answer: " + s.Error}
	case len(s.Missing) > 0:
		return Check{"containers", Warning, "this kernel can't hold containers to: " + some(s.Missing)}
	}
	return Check{"containers", Good, "containerd answers, every limit holds" + runcOf(s)}
}

// runcOf tells which runc runs containers.
func runcOf(s node.ContainerStatus) string {
	if s.Runc == "" {
		return ""
	}
	return ", runc is " + s.Runc
}

// zdb is no reason to take nothing new either: the engine makes right what it can.
func zdb(servers []node.ZDBServer) Check {
	var wrong []string
	for _, s := range servers {
		if s.Drift != "" {
			wrong = append(wrong, s.Container+" ("+s.Drift+")")
		}
	}
	if len(wrong) > 0 {
		return Check{"zdb", Warning, "not as they should be: " + some(wrong)}
	}
	return Check{"zdb", Good, fmt.Sprintf("%d zdb containers", len(servers))}
}

func delivery(s control.Status) Check {
	if s.Undelivered > 0 {
		return Check{"results", Warning, fmt.Sprintf("%d results wait for the explorer", s.Undelivered)}
	}
	return Check{"results", Good, "the explorer has every result"}
}

func orphans(s control.Status) Check {
	if len(s.Orphans) == 0 {
		return Check{"orphans", Good, "everything with croft's label has a record"}
	}
	ids := make([]string, 0, len(s.Orphans))
	for _, orphan := range s.Orphans {
		ids = append(ids, string(orphan.Type)+" "+orphan.ID)
	}
	return Check{"orphans", Warning, fmt.Sprintf("%d have a label and no record: %s", len(ids), some(ids))}
}

// some lists the first few of many.
func some(all []string) string {
	const most = 5
	if len(all) > most {
		return strings.Join(all[:most], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}
