package console

import (
	"fmt"
	"strings"
)

const (
	// summaryWidth bounds a line of a summary, mostInSummary the problems in it.
	summaryWidth  = 160
	mostInSummary = 8
)

// summary is what a serial line shows: some lines, with the worst problems.
func summary(v View) []string {
	n := v.Node
	state := fmt.Sprintf("%s, up %s, image %s", word(v), length(v.Uptime), image(v))
	lines := []string{state, strings.Join(strings.Fields("node "+known(n.ID)+" "+farm(n)), " ") + ", explorer " + explorer(v)}
	if v.Diskless {
		lines = append(lines, "NO DISK: this node runs from memory, everything is lost at power-off")
	}
	var up []string
	for _, i := range interfaces(v, summaryWidth) {
		up = append(up, strings.Join(strings.Fields(i), " "))
	}
	lines = append(lines, "network "+strings.Join(up, "; ")+"; door "+known(v.Door))
	if n.Answer == Answering {
		lines = append(lines, "workloads "+counters(n))
	}
	all := problems(v)
	for i, p := range all {
		if i == mostInSummary {
			lines = append(lines, fmt.Sprintf("   and %d more", len(all)-i))
			break
		}
		lines = append(lines, p.Severity.mark()+p.Name+": "+p.Detail)
	}
	for i := range lines {
		lines[i] = fit("croft: "+lines[i], summaryWidth)
	}
	return lines
}

// digest is the part of a view whose change is worth a new summary: what doesn't change by itself.
func digest(v View) string {
	out := []string{word(v), v.Node.ID, fmt.Sprint(v.Node.Farm, v.Diskless, v.Image.Slot, v.Image.Trial, v.Image.Upgrade), v.Door}
	for _, i := range v.Interfaces {
		out = append(out, fmt.Sprintf("%q %t %q", i.Name, i.Carrier, i.Addresses))
	}
	for _, p := range problems(v) {
		out = append(out, fmt.Sprintf("%d %q", p.Severity, p.Name))
	}
	return strings.Join(out, "\n")
}
