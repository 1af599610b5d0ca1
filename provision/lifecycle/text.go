package lifecycle

import (
	"fmt"
	"slices"
	"strings"
)

// Text is the table as a person reads it, in Markdown: a row for each event, a
// column for each phase, and below it what each word in it means.
func Text() string {
	var b strings.Builder
	phases := append([]Phase{None}, Phases()...)
	used := map[string]string{}
	var order []string
	b.WriteString("| event |")
	for _, p := range phases {
		if p == None {
			p = "no record"
		}
		fmt.Fprintf(&b, " %s |", p)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(phases)+1) + "\n")
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "| **%s** |", k)
		for _, p := range phases {
			a := act(p, k)
			if !slices.Contains(order, a.name) {
				order = append(order, a.name)
			}
			used[a.name] = a.does
			fmt.Fprintf(&b, " %s |", a.name)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| word | what it does |\n|---|---|\n")
	for _, name := range order {
		fmt.Fprintf(&b, "| %s | %s |\n", name, used[name])
	}
	return b.String()
}
