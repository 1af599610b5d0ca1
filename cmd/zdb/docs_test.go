package main

import (
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// The table of docs/zdb-server.md has exactly the flags, each with its default.
func TestFlagsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/zdb-server.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(raw), "\n## Flags\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	documented := map[string]string{}
	quoted := regexp.MustCompile("`([^`]*)`")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`--") {
			continue
		}
		names, values := quoted.FindAllStringSubmatch(cells[1], -1), quoted.FindAllStringSubmatch(cells[2], -1)
		for i, name := range names {
			value := ""
			if i < len(values) && values[i][1] != "--data" { // "as --data"
				value = values[i][1]
			}
			documented[strings.TrimPrefix(name[1], "--")] = value
		}
	}
	for _, f := range flags() {
		name := f.Names()[0]
		got, ok := documented[name]
		if want := defaultOf(t, f); !ok || got != want {
			t.Errorf("--%s: documented %v with default %q, is %q", name, ok, got, want)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("--%s is documented, and there is no such flag", name)
	}
}

// defaultOf is a flag's default, "" where there is none.
func defaultOf(t *testing.T, f cli.Flag) string {
	t.Helper()
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	t.Setenv("ZDB_ADMIN", "")
	must(t, f.Apply(set))
	value := set.Lookup(f.Names()[0]).DefValue
	if value == "false" {
		return ""
	}
	return value
}
