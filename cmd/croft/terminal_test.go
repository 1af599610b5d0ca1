package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croft/internal/command"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
)

// person sits at a terminal and answers questions.
type person struct {
	t    *testing.T
	home string
	url  string
}

func (p person) croft(answer string, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = command.Run(p.t.Context(), shell.Env{
		Stdin: strings.NewReader(answer), Stdout: &stdout, Stderr: &stderr, Now: time.Now, Terminal: true, Version: "test",
		Getenv: func(name string) (string, bool) {
			return map[string]string{"HOME": p.home, "CROFT_EXPLORER": p.url}[name], true
		},
	}, append([]string{"croft"}, args...))
	return code, stdout.String(), stderr.String()
}

// TestQuestionsBeforeDataGoes: nothing but yes is a yes.
func TestQuestionsBeforeDataGoes(t *testing.T) {
	ignored := goleak.IgnoreCurrent()
	dir := t.TempDir()
	w, err := newWorld(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.close()
		goleak.VerifyNone(t, ignored, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
	})
	if err := w.node.register(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.node.on(); err != nil {
		t.Fatal(err)
	}
	p := person{t: t, home: dir, url: w.front.URL}
	file := filepath.Join(dir, "croft.yaml")
	write := func(size string) {
		t.Helper()
		text := "project: p\nnode: " + w.node.key.ID() + "\nduration: 1d\nworkloads:\n  data:\n    volume: {size: " + size + ", type: SSD}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	for _, step := range []struct {
		does   string
		size   string
		answer string
		args   string
		code   int
		says   string
	}{
		{"makes a key", "", "", "id create", 0, ""},
		{"asks nothing before data is there", "", "", "apply --wait --timeout 20s", 0, "is deployed"},
		{"asks before it replaces", "2", "n\n", "apply", 1, "The data of data (volume 1-1) will be lost. Go on? [y/N]"},
		{"takes no answer as no", "", "", "apply", 1, "there was no answer"},
		{"takes another word as no", "", "sure\n", "apply", 1, "the answer wasn't yes; nothing was changed"},
		{"has changed nothing", "1", "", "plan", 0, ""},
		{"asks before it deletes", "", "\n", "delete data", 1, "The data of data (volume 1-1) will be lost"},
		{"asks before it deletes by ID", "", "N\n", "delete 1-1", 1, "will be lost"},
		{"has changed nothing", "", "", "plan", 0, ""},
		{"replaces after a yes", "2", "Y\n", "apply --wait --timeout 20s", 0, "1-1 is deleted"},
		{"deletes after a yes", "", "yes\n", "delete data --wait --timeout 20s", 0, "2-1 is deleted"},
		{"doesn't ask with --yes", "", "", "apply --wait --timeout 20s", 0, ""},
		{"doesn't ask with --yes", "", "", "delete --yes data --wait --timeout 20s", 0, "3-1 is deleted"},
	} {
		if step.size != "" {
			write(step.size)
		}
		args := strings.Fields(step.args)
		if args[0] != "id" {
			args = append(args, "-f", file)
		}
		code, _, errs := p.croft(step.answer, args...)
		if code != step.code || !strings.Contains(errs, step.says) {
			t.Fatalf("%s: croft %s: exit code %d, want %d: %s", step.does, step.args, code, step.code, errs)
		}
	}
}
