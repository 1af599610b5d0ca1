package console

import (
	"fmt"
	"strings"
)

// Kind is what an operator has asked for.
type Kind int

// The kinds.
const (
	nothing Kind = iota
	// Reboot and PowerOff are asked for by a key, and by the word yes after it.
	Reboot
	PowerOff
	// Shell is a shell of root on the terminal, which only a node gives that was booted with croft.console=shell.
	Shell
)

// mode is what a terminal shows.
type mode int

const (
	atHome mode = iota
	// asking: whether the operator means it.
	asking
	// choosing: the program whose log is to be shown.
	choosing
	reading
	// leaving: the machine goes down.
	leaving
)

// yes is what is typed to confirm.
const yes = "yes"

// menu is a terminal's state. Its zero value is the screen itself.
type menu struct {
	mode mode
	// action is what is asked for while asking, or done while leaving; typed is what was typed then.
	action Kind
	typed  string
	// chosen is the number of the program in the list.
	chosen int
	// program is the one whose log is read.
	program string
}

// offer is what there is to choose from.
type offer struct {
	programs []string
	shell    bool
}

// press is the state after a key, and what is to be done. It does nothing else.
func (m menu) press(k key, o offer) (menu, Kind) {
	if k == escape && m.mode != leaving { // which ends by itself, should the machine not go down
		if m.mode == reading {
			return menu{mode: choosing, chosen: m.chosen}, nothing
		}
		return menu{}, nothing
	}
	switch m.mode {
	case atHome:
		return m.home(k, o)
	case asking:
		return m.answer(k)
	case choosing:
		return m.choose(k, o)
	case reading:
		if k == 'q' || k == 'l' {
			return menu{mode: choosing, chosen: m.chosen}, nothing
		}
	}
	return m, nothing
}

func (m menu) home(k key, o offer) (menu, Kind) {
	switch {
	case k == 'r':
		return menu{mode: asking, action: Reboot}, nothing
	case k == 'p':
		return menu{mode: asking, action: PowerOff}, nothing
	case k == 'l':
		return menu{mode: choosing}, nothing
	case k == 's' && o.shell:
		return menu{}, Shell
	}
	return m, nothing
}

func (m menu) answer(k key) (menu, Kind) {
	switch {
	case k == enter && m.typed == yes:
		return menu{mode: leaving, action: m.action}, m.action
	case k == enter:
		return menu{}, nothing
	case k == backspace:
		m.typed = m.typed[:max(len(m.typed)-1, 0)]
	case k >= ' ' && k <= '~' && len(m.typed) < 2*len(yes):
		m.typed += string(rune(k))
	}
	return m, nothing
}

func (m menu) choose(k key, o offer) (menu, Kind) {
	last := len(o.programs) - 1
	m.chosen = min(max(m.chosen, 0), max(last, 0))
	switch {
	case k == 'q' || k == 'l':
		return menu{}, nothing
	case k == up:
		m.chosen = max(m.chosen-1, 0)
	case k == down:
		m.chosen = min(m.chosen+1, max(last, 0))
	case k == enter && last >= 0:
		return menu{mode: reading, chosen: m.chosen, program: o.programs[m.chosen]}, nothing
	case k >= '1' && k <= '9' && int(k-'1') <= last:
		return menu{mode: reading, chosen: int(k - '1'), program: o.programs[k-'1']}, nothing
	}
	return m, nothing
}

// homeKeys are the keys of the screen.
func (o offer) homeKeys() string {
	if o.shell {
		return keysLine + "   s shell"
	}
	return keysLine
}

// verb is what an action does to the machine.
func (k Kind) verb() string {
	if k == PowerOff {
		return "power off"
	}
	return "restart"
}

// prompt is the last line of the screen.
func (m menu) prompt(o offer) string {
	switch m.mode {
	case asking:
		return fmt.Sprintf("To %s this machine type yes and Enter; Esc goes back: %s_", m.action.verb(), m.typed)
	case choosing:
		return "Up, down and Enter, or 1 to 9, show a log; q goes back"
	case reading:
		return "q goes back"
	case leaving:
		return fmt.Sprintf("This machine is about to %s ...", m.action.verb())
	}
	return o.homeKeys()
}

// list is the list of programs, of which at most room are shown, the chosen one among them.
func (m menu) list(o offer, room int) []string {
	if len(o.programs) == 0 {
		return []string{"no program is started yet"}
	}
	chosen := min(max(m.chosen, 0), len(o.programs)-1)
	first := max(min(chosen-room/2, len(o.programs)-room), 0)
	var out []string
	for i := first; i < min(first+room, len(o.programs)); i++ {
		number, sign := "  ", " "
		if i < 9 {
			number = fmt.Sprintf("%d.", i+1)
		}
		if i == chosen {
			sign = ">"
		}
		out = append(out, fmt.Sprintf(" %s %s %s", sign, number, plain(o.programs[i])))
	}
	return out
}

// render is the whole screen of a terminal's state. logs are the last lines of the program whose log is read.
func (m menu) render(v View, o offer, logs []string, width, height int) []string {
	rule := strings.Repeat("-", width)
	switch m.mode {
	case choosing:
		return fill(append([]string{" Logs", rule}, m.list(o, height-3)...), m.prompt(o), width, height)
	case reading:
		lines := []string{" The last lines of the log of " + plain(m.program), rule}
		var all []string
		for _, l := range logs {
			all = append(all, wrap(plain(l), max(width, 2), mostWrapped)...)
		}
		if len(all) == 0 {
			all = []string{"it is empty"}
		}
		return fill(append(lines, all[max(len(all)-max(height-3, 0), 0):]...), m.prompt(o), width, height)
	}
	return frame(v, m.prompt(o), width, height)
}
