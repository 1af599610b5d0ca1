package console

import (
	"fmt"
	"strings"
)

// section is a part of the screen that may be cut. Its items have one or more lines each.
type section struct {
	name string
	// unit is what its items are called when they are counted; empty for nothing.
	unit  string
	items func(most int) [][]string
	// least is how many lines it has in any case, room how many it gets.
	least, room int
}

// single are items of one line.
func single(lines []string) func(int) [][]string {
	return func(int) [][]string {
		out := make([][]string, len(lines))
		for i, l := range lines {
			out[i] = []string{l}
		}
		return out
	}
}

// wrapped are problems of at most most lines each.
func wrapped(all []Problem, w int) func(most int) [][]string {
	return func(most int) [][]string {
		out := make([][]string, len(all))
		for i, p := range all {
			lines := wrap(p.Name+": "+p.Detail, w-len(p.Severity.mark()), most)
			for n := range lines {
				if n == 0 {
					lines[n] = p.Severity.mark() + lines[n]
				} else {
					lines[n] = strings.Repeat(" ", len(p.Severity.mark())) + lines[n]
				}
			}
			out[i] = lines
		}
		return out
	}
}

// mostWrapped is how many lines an item may have where there is room.
const mostWrapped = 3

// share divides the lines of the screen among its sections: each gets its least; what is left goes to the first that need it.
func share(sections []*section, lines int) {
	for _, s := range sections {
		s.room = min(s.least, height(s.items(1)))
		lines -= s.room
	}
	for _, most := range []int{1, mostWrapped} {
		for _, s := range sections {
			more := min(max(height(s.items(most))-s.room, 0), max(lines, 0))
			s.room += more
			lines -= more
		}
	}
}

func height(items [][]string) (n int) {
	for _, i := range items {
		n += len(i)
	}
	return n
}

// lines are the section's, as far as there is room. Items are shorter before any is left out.
func (s *section) lines() []string {
	items := s.items(1)
	for most := mostWrapped; most > 1; most-- {
		if all := s.items(most); height(all) <= s.room {
			items = all
			break
		}
	}
	left := 0
	if len(items) > s.room && height(items) > s.room {
		keep := max(s.room-1, 0)
		left, items = len(items)-keep, items[:keep]
	}
	var out []string
	for _, i := range items {
		out = append(out, i...)
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%sand %d more%s", s.indent(), left, s.unit))
	}
	if s.name == "" {
		return out
	}
	for n := range out {
		name := ""
		if n == 0 {
			name = s.name
		}
		out[n] = fmt.Sprintf("%-*s%s", heading, name, out[n])
	}
	return out
}

// indent is what stands before the line that counts the rest.
func (s *section) indent() string {
	if s.name == "" {
		return strings.Repeat(" ", len(Note.mark()))
	}
	return ""
}
