package command_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/command"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/provision/lifecycle"
)

const operations = "../../../../docs/operations.md"

// settingsTable is the table of docs/operations.md, generated from the program.
func settingsTable() string {
	var b strings.Builder
	group := ""
	for _, s := range config.Settings(module.Settings(modules.All())) {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n### %s\n\n| flag, key | environment | default | what it is |\n|---|---|---|---|\n", group)
		}
		value := ""
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s (%s) |\n", s.Name, s.Env(), value, s.Help, s.Kind)
	}
	return b.String() + "\n"
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("\n| metric | labels | what it is |\n|---|---|---|\n")
	for _, m := range health.Metrics(modules.All()) {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, labels, m.Help)
	}
	return b.String() + "\n"
}

// TestOperationsDocumentsEverything compares the tables of docs/operations.md with the program. With
// WRITE_DOCS=1 it rewrites them.
func TestOperationsDocumentsEverything(t *testing.T) {
	raw, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, want := range map[string]string{"settings": settingsTable(), "metrics": metricsTable()} {
		from, to := "<!-- "+name+": a test checks this table against the program -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(text, from)
		got, after, closed := strings.Cut(rest, to)
		if !ok || !closed {
			t.Fatalf("%s has no place for %s", operations, name)
		}
		if got != want {
			text = before + from + want + to + after
			if os.Getenv("WRITE_DOCS") == "" {
				t.Errorf("%s: the table of %s is stale: run this test with WRITE_DOCS=1", operations, name)
			}
		}
	}
	if text != string(raw) && os.Getenv("WRITE_DOCS") == "1" {
		if err := os.WriteFile(operations, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	phasesDocumented(t, text)
	for status, meaning := range map[int]string{
		command.ExitOK: "done", command.ExitFailed: "it failed", command.ExitUsage: "wrong usage", command.ExitNeedsRoot: "needs root",
		command.ExitNotRunning: "no node is running here", command.ExitRefused: "refused", command.ExitSecondSignal: "second signal",
	} {
		if !hasRow(text, fmt.Sprintf("| %d |", status), meaning) {
			t.Errorf("%s doesn't document exit status %d (%s)", operations, status, meaning)
		}
	}
}

// phasesDocumented checks the table of phases: a row a phase, in the order of the life cycle, with the
// reason for waiting that the program gives.
func phasesDocumented(t *testing.T, text string) {
	t.Helper()
	_, rest, _ := strings.Cut(text, "<!-- phases: a test checks this table against the program -->\n")
	table, _, _ := strings.Cut(rest, "<!-- /phases -->")
	program := sources(t)
	var rows []lifecycle.Phase
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		name, isRow := strings.CutPrefix(line, "| `")
		if !isRow || len(cells) != 5 {
			continue
		}
		name, _, _ = strings.Cut(name, "`")
		rows = append(rows, lifecycle.Phase(name))
		if waits := strings.Trim(cells[3], " "); strings.HasPrefix(waits, "`") && !strings.Contains(program, `"`+strings.Trim(waits, "`")+`"`) {
			t.Errorf("%s: no phase waits for %s", operations, waits)
		}
	}
	if !slices.Equal(rows, lifecycle.Phases()) {
		t.Errorf("%s has the phases %v, the program %v", operations, rows, lifecycle.Phases())
	}
}

func hasRow(text, begin, contains string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) && strings.Contains(line, contains) {
			return true
		}
	}
	return false
}
