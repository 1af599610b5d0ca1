package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// writeTable prints a status for people.
func writeTable(w io.Writer, s nodestatus.Status, now time.Time, modules []module.Descriptor) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(out, strings.Join(cells, "\t")) }
	readiness := health.Judge(s, now, modules)
	row("node", s.NodeID)
	row("version", s.Version+" ("+s.Commit+"), up "+now.Sub(s.Started).Round(time.Second).String())
	row("ready", cell.YesNo(readiness.Ready))
	for _, c := range readiness.Checks {
		if c.Level != host.Good {
			row(string(c.Level), c.Name+": "+c.Detail)
		}
	}
	row("explorer", cmp.Or(s.Explorer.URL, "none"))
	row("clock", trust(s.Clock))
	row("undelivered", fmt.Sprint(s.Undelivered))
	shown := module.SupportLast(modules)
	for _, m := range shown {
		if m.Overview != nil {
			m.Overview(row, s, now)
		}
	}
	writeKernel(row, s.Modules)
	row("")
	row("WORKLOAD", "TYPE", "PHASE", "RESULT", "TOLD", "ATTEMPTS", "EXPIRES", "USER", "RESTORED", "CAUSE")
	for _, x := range s.Workloads {
		row(x.ID, string(x.Type), x.Phase, cmp.Or(string(x.State), "-"), delivered(x), fmt.Sprint(x.Attempts),
			x.Expires.UTC().Format(time.RFC3339), cell.ID(x.User), restored(x), cause(x))
	}
	for _, orphan := range s.Orphans {
		row(orphan.ID, string(orphan.Type), "orphan", "-", "-", "-", "-", "-", "-", "a label without a record, seen "+orphan.Since.UTC().Format(time.RFC3339))
	}
	for _, m := range shown {
		if m.Table != nil {
			m.Table(row, s, now)
		}
	}
	writeCeilings(row, s.Ceilings)
	return out.Flush()
}

// trust formats the clock's trust level, its source, and the node's total uptime.
func trust(c host.ClockSpec) string {
	up := "up " + (time.Duration(c.Uptime) * time.Second).String() + " in all"
	if c.Trusted {
		return fmt.Sprintf("trusted: level %s, from %s, %s", c.Level, c.Source, up)
	}
	return fmt.Sprintf("not trusted: level %s, %s: %s", c.Level, up, c.Why)
}

// delivered is whether the explorer has received the workload's result.
func delivered(w work.WorkloadSpec) string {
	if w.State == "" {
		return "-"
	}
	return cell.YesNo(w.Delivered)
}

func cause(w work.WorkloadSpec) string {
	text := w.Error
	if w.Pending != "" {
		text = strings.TrimLeft(text+"; pending: "+w.Pending, "; ")
	}
	if !w.NextAttempt.IsZero() {
		text += ", next attempt " + w.NextAttempt.UTC().Format(time.RFC3339)
	}
	return strings.ReplaceAll(cmp.Or(text, "-"), "\n", " ")
}

// restored is how often the workload was repaired, and its last drift.
func restored(w work.WorkloadSpec) string {
	if w.Drift == nil {
		return "-"
	}
	what := strings.ReplaceAll(w.Drift.What, "\n", " ")
	return fmt.Sprintf("%d, last %s: %s", w.Restored, w.Drift.At.UTC().Format(time.RFC3339), what)
}
