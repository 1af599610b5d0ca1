package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func programs() offer { return offer{programs: []string{"containerd", "network", "redis"}} }

// TestKeysOnTheConsole is what each key does in each state.
func TestKeysOnTheConsole(t *testing.T) {
	shell := offer{programs: programs().programs, shell: true}
	for _, c := range []struct {
		keys string
		of   offer
		want menu
		does Kind
	}{
		{"", programs(), menu{}, nothing},
		{"\r\x1b[11~\x1b[[Aq", programs(), menu{}, nothing},
		{"r", programs(), menu{mode: asking, action: Reboot}, nothing},
		{"p", programs(), menu{mode: asking, action: PowerOff}, nothing},
		{"ryes", programs(), menu{mode: asking, action: Reboot, typed: "yes"}, nothing},
		{"ryes\r", programs(), menu{mode: leaving, action: Reboot}, Reboot},
		{"pyes\r", programs(), menu{mode: leaving, action: PowerOff}, PowerOff},
		{"pyex\x7fs\n", programs(), menu{mode: leaving, action: PowerOff}, PowerOff},
		{"rYES\r", programs(), menu{}, nothing},
		{"ry\r", programs(), menu{}, nothing},
		{"r\r", programs(), menu{}, nothing},
		{"ryesyes!!!", programs(), menu{mode: asking, action: Reboot, typed: "yesyes"}, nothing},
		{"r\x7f\x7fy", programs(), menu{mode: asking, action: Reboot, typed: "y"}, nothing},
		{"ryes\x1b", programs(), menu{}, nothing},
		{"ryes\x03", programs(), menu{}, nothing},
		{"rp", programs(), menu{mode: asking, action: Reboot, typed: "p"}, nothing},
		{"ryes\rpyes\r\x1b", programs(), menu{mode: leaving, action: Reboot}, nothing},
		{"s", programs(), menu{}, nothing},
		{"s", shell, menu{}, Shell},
		{"rs", shell, menu{mode: asking, action: Reboot, typed: "s"}, nothing},
		{"l", programs(), menu{mode: choosing}, nothing},
		{"l\x1b[B\x1bOB\x1b[B\x1b[B", programs(), menu{mode: choosing, chosen: 2}, nothing},
		{"l\x1b[B\x1b[A\x1b[A", programs(), menu{mode: choosing}, nothing},
		{"l\x1b[B\r", programs(), menu{mode: reading, chosen: 1, program: "network"}, nothing},
		{"l3", programs(), menu{mode: reading, chosen: 2, program: "redis"}, nothing},
		{"l4", programs(), menu{mode: choosing}, nothing},
		{"l3q", programs(), menu{mode: choosing, chosen: 2}, nothing},
		{"l3\x1b", programs(), menu{mode: choosing, chosen: 2}, nothing},
		{"l3qq", programs(), menu{}, nothing},
		{"l\r", offer{}, menu{mode: choosing}, nothing},
		{"l3rpyes\r", programs(), menu{mode: reading, chosen: 2, program: "redis"}, nothing},
	} {
		m, does := menu{}, nothing
		keys, rest := decode([]byte(c.keys))
		keys = append(keys, alone(rest)...)
		for _, k := range keys {
			m, does = m.press(k, c.of)
		}
		if m != c.want || does != c.does || len(rest) > 1 {
			t.Errorf("%q: %+v does %d (rest %q), want %+v that does %d", c.keys, m, does, rest, c.want, c.does)
		}
	}
}

// TestDecode holds that a sequence is one key or none, however it is cut, and never its letters.
func TestDecode(t *testing.T) {
	for in, want := range map[string][]key{
		"r": {'r'}, "\x1b[A": {up}, "\x1bOB": {down}, "\x1b[C": nil, "\x1b[15~p": {'p'}, "\x1b[[Ap": {'p'}, "\x1b[1;5A": nil, "\x1br": nil,
		"ä\u009br": {'r'}, "\xffr": {'r'}, "\x00\x01\t": nil, "\r\n": {enter, enter}, "\x08": {backspace}, "\x04": {escape},
	} {
		if got, rest := decode([]byte(in)); !slices.Equal(got, want) || len(rest) > 0 {
			t.Errorf("%q: %v, rest %q; want %v", in, got, rest, want)
		}
	}
	for _, whole := range []string{"\x1b[A", "\x1b[15~", "\x1b[[A", "\x1bOB"} {
		for cut := 1; cut < len(whole); cut++ {
			first, rest := decode([]byte(whole[:cut]))
			then, left := decode(append(slices.Clone(rest), whole[cut:]...))
			all, _ := decode([]byte(whole))
			if got := append(first, then...); !slices.Equal(got, all) || len(left) > 0 {
				t.Errorf("%q cut at %d: %v, want %v", whole, cut, got, all)
			}
		}
	}
	if keys, rest := decode([]byte("r\x1b")); !slices.Equal(keys, []key{'r'}) || !slices.Equal(alone(rest), []key{escape}) || alone([]byte("\x1b[1")) != nil {
		t.Errorf("ESC alone: %v, %q", keys, rest)
	}
	if keys, rest := decode([]byte("\x1b[" + strings.Repeat("0", 100))); len(keys)+len(rest) > 0 {
		t.Errorf("an endless sequence: %v, %q", keys, rest)
	}
}

// TestNothingWithoutYes holds that only yes and Enter right after r or p restart the machine or power it off, and do what the letter says.
func TestNothingWithoutYes(t *testing.T) {
	done := 0
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"r", "p", "yes", "ye", "s", "y", "\r", "yes\r", "ryes\r", "l", "1", "q", "\x1b[A", "\x1b[[A", "\x1bO", "x", "\x00",
		}), 0, 20).Draw(t, "in"), "")
		var m menu
		keys, _ := decode([]byte(in))
		keys = slices.DeleteFunc(keys, func(k key) bool { return k == up }) // no answer has any
		for i, k := range keys {
			var does Kind
			if m, does = m.press(k, programs()); does == nothing {
				continue
			}
			done++
			asked := map[Kind]string{Reboot: "ryes\r", PowerOff: "pyes\r"}[does]
			if typed := keys[:i+1]; asked == "" || !slices.Equal(typed[max(len(typed)-len(asked), 0):], []key(asked)) {
				t.Fatalf("%q does %d at key %d", in, does, i)
			}
			m = menu{}
		}
		fits(t, m.render(healthy(), programs(), []string{in}, 80, 25), 80, 25)
	})
	if done == 0 {
		t.Error("no input has done anything")
	}
}

func TestMenus(t *testing.T) {
	many := offer{shell: true}
	for i := range 40 {
		many.programs = append(many.programs, fmt.Sprintf("program-%d", i))
	}
	logs := []string{"starts", "\x1b[2Jtime=\"2026\" level=error " + strings.Repeat("a long line ", 20), "ready"}
	for name, m := range map[string]menu{
		"shell": {}, "asking": {mode: asking, action: PowerOff, typed: "ye"}, "leaving": {mode: leaving, action: Reboot},
		"choosing": {mode: choosing, chosen: 30}, "reading": {mode: reading, program: "network"},
	} {
		lines := m.render(healthy(), many, logs, 80, 25)
		fits(t, lines, 80, 25)
		golden(t, "menu-"+name, lines)
	}
	for _, height := range []int{1, 2, 3, 5} {
		for m := atHome; m <= leaving; m++ {
			fits(t, menu{mode: m, chosen: 99}.render(hostile(), many, logs, 3, height), 3, height)
		}
	}
}
