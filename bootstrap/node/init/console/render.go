package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-edge/croft/internal/guest/service"
)

// The size of the smallest screen that has room for everything; a smaller one is cut.
const (
	leastWidth  = 80
	leastHeight = 25
	// heading is the width of the column of headings.
	heading = 11
)

// keysLine is the last line of the screen.
const keysLine = "r restart   p power off   l logs"

// Render is the screen: exactly height lines of printable ASCII, none longer than width.
func Render(v View, width, height int) []string {
	return frame(v, keysLine, width, height)
}

// frame is the screen with its last line.
func frame(v View, last string, width, height int) []string {
	w := max(width, leastWidth)
	top := header(v, w)
	all := problems(v)
	fixed := len(top) + 2 // the heading of problems, and the last line
	sections := []*section{
		{items: wrapped(all, w), least: 4},
		{name: "Network", items: single(interfaces(v, w-heading)), least: 3},
		{name: "Pools", items: single(pools(v, w-heading)), least: 3},
		{name: "Services", items: single(services(v, w-heading)), least: 3, unit: " lines"},
	}
	share(sections, max(height, leastHeight)-fixed)
	lines := top
	for _, s := range sections[1:] {
		lines = append(lines, s.lines()...)
	}
	lines = append(lines, row("Problems", tally(all), w))
	lines = append(lines, sections[0].lines()...)
	return fill(lines, last, width, height)
}

// fill brings lines to the size of the screen.
func fill(lines []string, last string, width, height int) []string {
	out := make([]string, 0, height)
	for _, l := range lines {
		if len(out) < height-1 {
			out = append(out, strings.TrimRight(fit(l, width), " "))
		}
	}
	for len(out) < height-1 {
		out = append(out, "")
	}
	return append(out, fit(last, width))
}

// header are the lines that are always there.
func header(v View, w int) []string {
	n := v.Node
	lines := []string{spread(" croft node   "+word(v), "up "+length(v.Uptime)+" ", w), strings.Repeat("-", w)}
	if v.Diskless {
		lines = append(lines, banner("NO DISK: this node runs from memory, everything is lost at power-off", w))
	}
	return append(lines,
		row("Node", spread(known(n.ID), farm(n), w-heading), w),
		row("Explorer", explorer(v), w),
		row("Door", known(v.Door), w),
		row("Clock", clock(v), w),
		row("Image", image(v), w),
		row("Machine", fmt.Sprintf("%s free of %s, load %.2f %.2f %.2f", size(v.Free), size(v.Memory), v.Load[0], v.Load[1], v.Load[2]), w),
		row("Workloads", counters(n), w))
}

func farm(n Node) string {
	switch {
	case n.Farm != 0:
		return fmt.Sprintf("farm %d", n.Farm)
	case n.ID == "":
		return "" // not known yet
	}
	return "no farm"
}

// word is the state of the node in a word.
func word(v View) string {
	switch {
	case v.Node.Answer == Starting:
		return "STARTING"
	case v.Node.Answer == Silent:
		return "DOES NOT ANSWER"
	case v.Stuck > 0:
		return "STUCK"
	case !v.Node.Ready:
		return "NOT READY"
	}
	return "READY"
}

func banner(s string, w int) string {
	stars := strings.Repeat("*", max((w-len(s)-2)/2, 0))
	return fit(stars+" "+s+" "+stars, w)
}

func row(name, text string, w int) string { return fit(fmt.Sprintf("%-*s%s", heading, name, text), w) }

func known(s string) string { return cmp.Or(plain(s), "not known yet") }

func explorer(v View) string {
	c := v.Node.Contact
	url := plain(v.Node.Explorer)
	switch {
	case url == "" && v.Node.Answer == Answering:
		return "none: no reservations can arrive"
	case url == "":
		return "not known yet"
	case v.Node.Answer != Answering:
		return url
	case !c.Since.IsZero():
		return url + "  in contact for " + length(v.Now.Sub(c.Since))
	case c.Last.IsZero():
		return url + "  NO CONTACT since the start"
	}
	return url + "  NO CONTACT for " + length(v.Now.Sub(c.Last))
}

func clock(v View) string {
	now := v.Now.UTC().Format("2006-01-02 15:04 UTC")
	c := v.Node.Clock
	level, source := plain(c.Level), plain(c.Source)
	switch {
	case v.Node.Answer != Answering || level == "":
		return now
	case level == "none":
		return now + "  not trusted: " + plain(c.Why)
	}
	return now + "  trusted for: " + level + " (" + source + ")"
}

func image(v View) string {
	out := known(v.Image.Version)
	if v.Image.Slot != "" {
		out += "  slot " + plain(v.Image.Slot)
	}
	if v.Image.Trial {
		out += " (trial)"
	}
	out += "  kernel " + known(v.Kernel)
	if version := plain(v.Node.Version); version != "" {
		out += "  croft " + version
	}
	return out
}

func counters(n Node) string {
	if n.Answer != Answering {
		return "not known"
	}
	c := n.Counters
	return strings.Join([]string{
		count(c.Container, "container", "containers"), count(c.Volume, "volume", "volumes"), count(c.Network, "network", "networks"),
		fmt.Sprintf("%d zdb", c.ZDB), count(c.VM, "vm", "vms"), fmt.Sprintf("%d debug", c.Debug),
	}, "  ")
}

// rank sorts what isn't later before what is.
func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}

// interfaces are those of the machine, connected ones first.
func interfaces(v View, w int) []string {
	sorted := slices.Clone(v.Interfaces)
	slices.SortStableFunc(sorted, func(a, b Interface) int { return rank(!a.Carrier) - rank(!b.Carrier) })
	var out []string
	for _, i := range sorted {
		text := fmt.Sprintf("%-9s ", plain(i.Name))
		switch {
		case !i.Carrier:
			text += "no carrier"
		case len(i.Addresses) == 0:
			text += "up, NO ADDRESS"
		default:
			all := make([]string, len(i.Addresses))
			for n, a := range i.Addresses {
				all[n] = plain(a)
			}
			text += strings.Join(all, " ")
		}
		out = append(out, fit(text, w))
	}
	if len(out) == 0 {
		return []string{"NO NETWORK: no network interface was found"}
	}
	return out
}

func pools(v View, w int) []string {
	var out []string
	for _, p := range v.Node.Pools {
		text := fmt.Sprintf("%-22s %-4s ", fit(plain(p.Name), 22), plain(p.Type))
		if p.Broken != "" {
			text += "BROKEN: " + plain(p.Broken)
		} else {
			text += fmt.Sprintf("%10s, %s free", size(p.Total), size(p.Free))
		}
		out = append(out, fit(text, w))
	}
	switch {
	case len(out) > 0:
	case v.Node.Answer == Answering:
		return []string{"none"}
	default:
		return []string{"not known"}
	}
	return out
}

// services are the programs, those that aren't ready first.
func services(v View, w int) []string {
	sorted := slices.Clone(v.Services)
	slices.SortStableFunc(sorted, func(a, b service.State) int { return rank(a.Ready) - rank(b.Ready) })
	parts := make([]string, 0, len(sorted))
	for _, s := range sorted {
		parts = append(parts, fit(plain(s.Name), 16)+" "+running(s, v))
	}
	if len(parts) == 0 {
		return []string{"none is started yet"}
	}
	return flow(parts, w)
}

// running is a program's state in some words.
func running(s service.State, v View) string {
	out := ""
	switch {
	case s.PID == 0:
		out = "DOWN"
	case !s.Ready:
		out = "starting"
	default:
		out = strings.ReplaceAll(length(v.Now.Sub(s.Since)), "less than 1 min", "0 min")
	}
	if s.Ends > 0 {
		out += fmt.Sprintf(" (%s)", count(int64(s.Ends), "restart", "restarts"))
	}
	return out
}
