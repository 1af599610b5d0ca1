package command

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
)

// writeTable prints a status for people.
func writeTable(w io.Writer, s nodestatus.Status, now time.Time) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(out, strings.Join(cells, "\t")) }
	readiness := health.Judge(s, now)
	row("node", s.NodeID)
	row("version", s.Version+" ("+s.Commit+"), up "+now.Sub(s.Started).Round(time.Second).String())
	row("ready", yesNo(readiness.Ready))
	for _, c := range readiness.Checks {
		if c.Level != nodestatus.Good {
			row(string(c.Level), c.Name+": "+c.Detail)
		}
	}
	row("explorer", cmp.Or(s.Explorer.URL, "none"))
	row("clock", trust(s.Clock))
	row("undelivered", fmt.Sprint(s.Undelivered))
	if len(s.Storage.Pools) > 0 {
		row("")
		row("POOL", "TYPE", "TOTAL", "USED", "PROMISED", "PATH")
	}
	for _, p := range s.Storage.Pools {
		row(p.Name, string(p.DiskType), inGiB(p.Total), inGiB(p.Used), inGiB(p.Reserved), mountedOn(p))
	}
	row("")
	row("WORKLOAD", "TYPE", "PHASE", "RESULT", "TOLD", "ATTEMPTS", "EXPIRES", "USER", "RESTORED", "CAUSE")
	for _, x := range s.Workloads {
		row(x.ID, string(x.Type), x.Phase, cmp.Or(string(x.State), "-"), delivered(x), fmt.Sprint(x.Attempts),
			x.Expires.UTC().Format(time.RFC3339), short(x.User), restored(x), cause(x))
	}
	for _, orphan := range s.Orphans {
		row(orphan.ID, string(orphan.Type), "orphan", "-", "-", "-", "-", "-", "-", "a label without a record, seen "+orphan.Since.UTC().Format(time.RFC3339))
	}
	writeNetworks(row, s.Networks, now)
	writeContainers(row, "CONTAINER", s.Containers)
	writeContainers(row, "OWN CONTAINER", s.OwnContainers)
	writeImages(row, s.Images)
	writeZDB(row, s.ZDB)
	writeStreams(row, s.Streams)
	writeCeilings(row, s.Ceilings)
	return out.Flush()
}

// writeStreams prints who gets the node's log lines.
func writeStreams(row func(cells ...string), streams []node.DebugInfo) {
	if len(streams) == 0 {
		return
	}
	row("")
	row("STREAM", "TO", "CHANNEL", "CONNECTED", "SENT", "DROPPED", "USER", "CAUSE")
	for _, x := range streams {
		row(x.ID, net.JoinHostPort(x.Host, fmt.Sprint(x.Port)), x.Channel, yesNo(x.Connected), fmt.Sprint(x.Sent), fmt.Sprint(x.Dropped),
			short(x.User), cmp.Or(x.LastError, "-"))
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// trust is how far the time is trusted and where it is from, and the node's
// whole uptime.
func trust(c nodestatus.Clock) string {
	up := "up " + (time.Duration(c.Uptime) * time.Second).String() + " in all"
	if c.Trusted {
		return fmt.Sprintf("trusted: level %s, from %s, %s", c.Level, c.Source, up)
	}
	return fmt.Sprintf("not trusted: level %s, %s: %s", c.Level, up, c.Why)
}

// delivered is whether the explorer has the workload's result.
func delivered(w nodestatus.Workload) string {
	if w.State == "" {
		return "-"
	}
	return yesNo(w.Delivered)
}

func cause(w nodestatus.Workload) string {
	text := w.Cause
	if w.Waiting != "" {
		text = strings.TrimLeft(text+"; pending: "+w.Waiting, "; ")
	}
	if w.NextAttempt != nil {
		text += ", next attempt " + w.NextAttempt.UTC().Format(time.RFC3339)
	}
	return strings.ReplaceAll(cmp.Or(text, "-"), "\n", " ")
}

// mountedOn is where the pool is, and how often it had to be mounted again.
func mountedOn(p node.Pool) string {
	if p.Remounted == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s (unmounted by somebody and mounted again, times: %d)", p.Path, p.Remounted)
}

// restored is how often the workload was made right, and what differed last.
func restored(w nodestatus.Workload) string {
	if w.Drift == nil {
		return "-"
	}
	what := strings.ReplaceAll(w.Drift.What, "\n", " ")
	return fmt.Sprintf("%d, last %s: %s", w.Restored, w.Drift.At.UTC().Format(time.RFC3339), what)
}

func short(id string) string {
	if len(id) > 8 {
		return id[:8] + "…"
	}
	return id
}

func inGiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
