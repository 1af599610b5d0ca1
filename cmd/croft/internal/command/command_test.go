package command_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/command"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
)

// shellRun is one run of the command line.
type shellRun struct {
	dir   string
	stdin string
	env   map[string]string
	tty   bool
}

func (r shellRun) run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = command.Run(ctx, shell.Env{
		Stdin: strings.NewReader(r.stdin), Stdout: &out, Stderr: &errs, Now: time.Now, Terminal: r.tty, Version: "test", Commit: "abc",
		Getenv: func(name string) (string, bool) {
			if name == "HOME" {
				return r.dir, true
			}
			v, ok := r.env[name]
			return v, ok
		},
	}, append([]string{"croft"}, args...))
	return code, out.String(), errs.String()
}

// commands are all of them, as `croft help` lists them.
func commands() [][]string {
	return [][]string{
		{"id", "create"}, {"id", "restore"}, {"id", "show"},
		{"farm", "create"}, {"farm", "list"}, {"farm", "show"}, {"farm", "approve"},
		{"node", "list"}, {"node", "show"},
		{"plan"}, {"apply"}, {"import"}, {"status"}, {"renew"}, {"delete"}, {"counters"}, {"get"}, {"dump"}, {"graph"},
		{"network", "create"}, {"network", "add-node"}, {"network", "add-access"}, {"network", "remove-node"}, {"network", "remove-access"},
		{"network", "remove"}, {"network", "list"}, {"network", "show"}, {"network", "graph"},
		{"logs"}, {"exec"}, {"stats"}, {"events"}, {"kubeconfig"},
		{"reservation", "sign"}, {"reservation", "push"}, {"reservation", "get"}, {"reservation", "verify"},
		{"completion"}, {"version"},
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	for _, c := range commands() {
		code, out, _ := shellRun{dir: t.TempDir()}.run(t.Context(), append(c, "--help")...)
		if code != 0 || !strings.Contains(out, "Examples:") || !strings.Contains(out, "croft "+strings.Join(c, " ")) {
			t.Errorf("croft %s --help: exit code %d, and no examples of it:\n%s", strings.Join(c, " "), code, out)
		}
	}
}

// TestListOfCommandsIsComplete: a new command gets its help tested.
func TestListOfCommandsIsComplete(t *testing.T) {
	known := map[string]bool{"help": true, "h": true, "exit-codes": true}
	groups := map[string]bool{}
	for _, c := range commands() {
		known[strings.Join(c, " ")] = true
		if len(c) == 2 {
			groups[c[0]] = true
		}
	}
	complete := func(words ...string) []string {
		// The library completes the process's own line.
		process := os.Args
		os.Args = append(append([]string{"croft"}, words...), "--generate-bash-completion")
		defer func() { os.Args = process }()
		_, out, _ := shellRun{dir: t.TempDir()}.run(t.Context(), append(words, "--generate-bash-completion")...)
		return strings.Fields(out)
	}
	names := complete()
	if len(names) < len(groups) {
		t.Fatalf("completion lists only %v", names)
	}
	for _, name := range names {
		if groups[name] {
			for _, sub := range complete(name) {
				if !known[name+" "+sub] && !known[sub] {
					t.Errorf("croft %s %s isn't in the list of commands", name, sub)
				}
			}
		} else if !known[name] {
			t.Errorf("croft %s isn't in the list of commands", name)
		}
	}
}

// TestFlagsMayStandAnywhere: each line means `croft -o json id show --words`.
func TestFlagsMayStandAnywhere(t *testing.T) {
	r := shellRun{dir: t.TempDir()}
	if code, _, errs := r.run(t.Context(), "id", "create"); code != 0 {
		t.Fatal(errs)
	}
	_, want, _ := r.run(t.Context(), "-o", "json", "id", "show", "--words")
	if !strings.Contains(want, `"words"`) {
		t.Fatalf("no words in %s", want)
	}
	for _, line := range []string{
		"id show --words -o json", "id -o json show --words", "id show -o=json --words", "id --words show --output json",
		"-o json --words id show", "id show --words --output=json", "id show -words -o json",
	} {
		if code, got, errs := r.run(t.Context(), strings.Fields(line)...); code != 0 || got != want {
			t.Errorf("croft %s: exit code %d, %s%s", line, code, got, errs)
		}
	}
	// Behind -- nothing is a flag.
	if code, _, errs := r.run(t.Context(), "id", "show", "--", "--words"); code != 64 || !strings.Contains(errs, "takes no argument") {
		t.Errorf("croft id show -- --words: exit code %d, %s", code, errs)
	}
	// A flag without its value isn't given the next one's.
	if code, _, errs := r.run(t.Context(), "id", "show", "-o"); code != 64 || !strings.Contains(errs, "flag needs an argument") {
		t.Errorf("croft id show -o: exit code %d, %s", code, errs)
	}
}

func TestRestoreAsksOnATerminal(t *testing.T) {
	r := shellRun{dir: t.TempDir(), tty: true}
	code, out, errs := r.run(t.Context(), "id", "create", "-o", "json")
	if code != 0 {
		t.Fatal(errs)
	}
	words := strings.Split(strings.SplitN(out, `"words": "`, 2)[1], `"`)[0]
	r.stdin = words + "\n"
	code, _, errs = r.run(t.Context(), "--id", filepath.Join(r.dir, "again"), "id", "restore")
	if code != 0 || !strings.Contains(errs, "Type the 24 words") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	one, err := os.ReadFile(filepath.Join(r.dir, ".config/croft/id.seed"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(filepath.Join(r.dir, "again"))
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("the key is another one: %v", err)
	}
}

// TestErrorsAreOneLine: text from elsewhere can't draw on the terminal.
func TestErrorsAreOneLine(t *testing.T) {
	code, _, errs := shellRun{dir: t.TempDir()}.run(t.Context(), "ev\x1b[31mil\nname")
	if code != 64 || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "\x1b") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}
