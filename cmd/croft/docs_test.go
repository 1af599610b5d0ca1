package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/command"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

func doc(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// says is what the program writes on its standard output, run in this process.
func says(t *testing.T, args ...string) string {
	t.Helper()
	was := os.Args
	defer func() { os.Args = was }()
	os.Args = append([]string{"croft"}, args...) // the completion looks at them
	var out strings.Builder
	status := command.Run(t.Context(), shell.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Getenv: os.LookupEnv, Now: time.Now,
	}, os.Args)
	if status != 0 {
		t.Fatalf("croft %s: exit code %d", strings.Join(args, " "), status)
	}
	return out.String()
}

// TestEveryCommandAndFlagIsDocumented compares docs/cli.md with what the
// program's completion offers.
func TestEveryCommandAndFlagIsDocumented(t *testing.T) {
	words := func(args ...string) []string {
		return strings.Fields(says(t, append(args, "--generate-bash-completion")...))
	}
	text := doc(t, "cli.md")
	count := 0
	has := func(what string) {
		count++
		if !strings.Contains(text, what) {
			t.Errorf("docs/cli.md doesn't tell of %s", what)
		}
	}
	for _, name := range words() {
		if name == "help" || name == "h" || name == "exit-codes" {
			continue
		}
		has("`croft " + name)
		for _, sub := range words(name) {
			if sub != "help" && sub != "h" && regexp.MustCompile(`^[a-z-]+$`).MatchString(sub) && !strings.Contains("bash zsh fish", sub) {
				has("`croft " + name + " " + sub)
			}
		}
		for _, flag := range words(name, "-") {
			if flag != "--help" && strings.HasPrefix(flag, "--") && flag != "--file" {
				has(flag)
			}
		}
	}
	if count < 30 {
		t.Fatalf("only %d words were compared", count)
	}
}

// TestExitCodesAreDocumented: the table in the program is that in the document.
func TestExitCodesAreDocumented(t *testing.T) {
	codes := regexp.MustCompile(`(?m)^[0-9]+`).FindAllString(says(t, "exit-codes"), -1)
	if len(codes) != 7 {
		t.Fatalf("the program knows %v", codes)
	}
	for _, code := range codes {
		if !strings.Contains(doc(t, "cli.md"), "\n| "+code+" | ") {
			t.Errorf("docs/cli.md doesn't tell of exit code %s", code)
		}
	}
}

// TestTheExampleProjectIsValid: what docs show can be planned.
func TestTheExampleProjectIsValid(t *testing.T) {
	for _, name := range []string{"cli.md", "quickstart.md", "network-cli.md"} {
		found := regexp.MustCompile("(?s)```yaml\n(project:.*?)```").FindStringSubmatch(doc(t, name))
		if found == nil {
			t.Errorf("docs/%s shows no project", name)
			continue
		}
		checkProject(t, name, strings.ReplaceAll(found[1], "5f4N…", "GnggCaNntikZ3TAt7Nw8yj6acQSpiaKeumJ4d9VNbwkt"))
	}
}

func checkProject(t *testing.T, name, text string) {
	t.Helper()
	f, err := project.Parse(name, []byte(text))
	if err != nil {
		t.Errorf("docs/%s: %v", name, err)
		return
	}
	for _, w := range f.Workloads {
		if err := w.Check("GnggCaNntikZ3TAt7Nw8yj6acQSpiaKeumJ4d9VNbwkt"); err != nil {
			t.Errorf("docs/%s: %v", name, err)
		}
	}
}
