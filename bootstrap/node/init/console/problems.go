package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// startFor is how long after its start a program may be not ready before that is a problem.
const startFor = time.Minute

// problems are all of a view, the worst first, as plain text.
func problems(v View) []Problem {
	out := slices.Clone(v.Problems)
	add := func(s Severity, name, detail string) { out = append(out, Problem{s, name, detail}) }
	if v.Stuck > 0 {
		add(Failing, "engine", "it has been stuck for "+length(v.Stuck)+"; it is started again if that lasts")
	}
	if v.Node.Answer == Silent {
		add(Failing, "node", "the node doesn't answer (since "+length(v.Now.Sub(v.Node.Since))+"): "+v.Node.Why)
	}
	for _, c := range v.Node.Checks {
		switch c.Level {
		case host.Failing:
			add(Failing, c.Name, c.Detail)
		case host.Warning:
			add(Warning, c.Name, c.Detail)
		}
	}
	for _, s := range v.Services {
		if why := trouble(s, v); why != "" {
			add(Failing, s.Name, why)
		}
	}
	for _, i := range v.Interfaces {
		if i.Error != "" {
			add(Warning, i.Name, i.Error)
		}
	}
	if v.Image.Upgrade != "" {
		add(Note, "upgrade", v.Image.Upgrade)
	}
	if v.Image.Failed != "" {
		add(Warning, "upgrade", v.Image.Failed)
	}
	for _, why := range v.Refused {
		add(Warning, "setting refused", why)
	}
	for _, d := range v.Left {
		add(Note, d.Path, "left alone: "+d.Why)
	}
	for i := range out {
		out[i].Severity = min(max(out[i].Severity, Failing), Note)
		out[i].Name, out[i].Detail = plain(out[i].Name), plain(out[i].Detail)
	}
	slices.SortStableFunc(out, func(a, b Problem) int { return cmp.Compare(a.Severity, b.Severity) })
	return out
}

// trouble is what is wrong with a program; empty for nothing.
func trouble(s service.State, v View) string {
	switch {
	case s.PID == 0 && s.Ends > 0:
		return fmt.Sprintf("it has ended %s, the last time by %s; it is started again", count(int64(s.Ends), "time", "times"), s.LastEnd)
	case s.PID != 0 && !s.Ready && s.Cause != "" && v.Now.Sub(s.Since) > startFor:
		return "it runs and isn't ready: " + s.Cause
	}
	return ""
}

// mark begins the lines of a problem.
func (s Severity) mark() string {
	switch s {
	case Failing:
		return "!! "
	case Warning:
		return " ! "
	}
	return " - "
}

// tally counts problems, such as "2 failing, 1 warning".
func tally(all []Problem) string {
	var n [Note + 1]int64
	for _, p := range all {
		n[p.Severity]++
	}
	out := ""
	for i, text := range []string{fmt.Sprintf("%d failing", n[Failing]), count(n[Warning], "warning", "warnings"), count(n[Note], "note", "notes")} {
		if n[i] == 0 {
			continue
		}
		if out != "" {
			out += ", "
		}
		out += text
	}
	return cmp.Or(out, "none")
}
