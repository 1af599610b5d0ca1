package lifecycle

import (
	"fmt"
	"slices"
	"strings"
)

// Text is the table for people, in Markdown: the phases, then a table for each
// part of a life, a row for each event and a column for each phase, then the
// meaning of each word in them.
func Text() string {
	b := &strings.Builder{}
	b.WriteString("\n| phase | state of the node |\n|---|---|\n")
	for _, p := range Phases() {
		fmt.Fprintf(b, "| %s | %s |\n", p, p.says())
	}
	words := map[string]string{}
	for _, part := range parts() {
		part.write(b, words)
	}
	b.WriteString("\n| word | what happens then |\n|---|---|\n")
	for _, word := range sortedWords(words) {
		fmt.Fprintf(b, "| %s | %s |\n", word, words[word])
	}
	return b.String()
}

// says describes the phase in one line.
func (p Phase) says() string {
	switch p {
	case Waiting:
		return "signed by its user, and can't be judged yet; no room is promised"
	case Fetching:
		return "its room is promised; what it needs is being fetched"
	case Intent:
		return "it is being provisioned; anything of it may be there"
	case Retry:
		return "the last attempt failed; the next one waits"
	case Deployed:
		return "it is there"
	case Replaced:
		return "what is there under its name is a newer reservation's"
	case Stopping:
		return "it is over and is being stopped; its data stays"
	case Held:
		return "it is over and stopped; its data stays until its end is proven or its grace over"
	case Blocked:
		return "its end is decided; others use it, and nothing of it has been removed"
	case Leaving:
		return "it is being decommissioned; anything of it may be gone"
	case Ended:
		return "nothing is there: a tombstone, until its signed end is proven"
	case Failed:
		return "as *ended*; it failed for good"
	case Refused:
		return "as *ended*; it was refused before anything was done"
	case Dismissed:
		return "as *ended*; it goes as soon as its user has the answer"
	}
	return ""
}

// part is a part of the table: some phases, and the title above them.
type part struct {
	title  string
	phases []Phase
}

func parts() []part {
	return []part{
		{"It arrives, and is judged", []Phase{None, Waiting}},
		{"It is wanted", []Phase{Fetching, Intent, Retry, Deployed, Replaced}},
		{"It is over", []Phase{Stopping, Held, Blocked, Leaving}},
		{"It is remembered", []Phase{Ended, Failed, Refused, Dismissed}},
	}
}

// write writes a part, without the events that change nothing in it, and notes
// its words.
func (part part) write(b *strings.Builder, words map[string]string) {
	fmt.Fprintf(b, "\n**%s**\n\n| event |", part.title)
	for _, p := range part.phases {
		if p == None {
			p = "no record"
		}
		fmt.Fprintf(b, " %s |", p)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(part.phases)+1) + "\n")
	var still []string
	for _, k := range Kinds() {
		row, idle := part.row(k, words)
		if idle {
			still = append(still, string(k))
			continue
		}
		fmt.Fprintf(b, "| **%s** |%s\n", k, row)
	}
	if len(still) > 0 {
		fmt.Fprintf(b, "\nNothing changes, or it can't come: %s.\n", strings.Join(still, ", "))
	}
}

// row are the phases' actions for an event; idle when nothing changes in any.
func (part part) row(k Kind, words map[string]string) (row string, idle bool) {
	idle = true
	for _, p := range part.phases {
		a := act(p, k)
		if a.name != nothing().name && a.name != impossible().name {
			idle = false
			words[a.name] = a.does
		}
		row += " " + a.name + " |"
	}
	if !idle && strings.Contains(row, nothing().name) {
		words[nothing().name] = nothing().does
	}
	if !idle && strings.Contains(row, impossible().name) {
		words[impossible().name] = impossible().does
	}
	return row, idle
}

func sortedWords(words map[string]string) []string {
	out := make([]string, 0, len(words))
	for word := range words {
		out = append(out, word)
	}
	slices.Sort(out)
	return out
}
