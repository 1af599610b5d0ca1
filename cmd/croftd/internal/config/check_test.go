package config_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

func faults(name string) []string {
	l, all := config.Check(config.From{Modules: module.Settings(modules.All()), File: name, Environ: []string{"CROFT_POOL_SIZE=big"}})
	var out []string
	for _, err := range all {
		out = append(out, err.Error())
	}
	if (l == nil) != (len(all) > 0) {
		out = append(out, "a wrong configuration was returned, or none")
	}
	return out
}

func TestCheckTellsAllThatIsWrong(t *testing.T) {
	name := file(t, "heartbeat: soon\nhartbeat: 1s\nfarm-id: 7\nfarm-id: 8\ndisk: {a: b}\nlog-level: loud\n? [a]\n: b\n")
	got := faults(name)
	want := []string{
		`cannot use "hartbeat" (from ` + name + ` line 2): no such setting`, "cannot use farm-id (from " + name + " line 4): it is set twice",
		"cannot use disk (from " + name + " line 5): it must be a list", `cannot use "" (from ` + name + ` line 7): no such setting`,
		`cannot use pool-size = "big" (from environment CROFT_POOL_SIZE): it must be`,
		`cannot use log-level = "loud" (from ` + name + ` line 6): it must be one of trace,`, `cannot use heartbeat = "soon" (from ` + name + ` line 1): it must be a duration above 0`,
	}
	if len(got) != len(want) {
		t.Errorf("%d faults are told, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("fault %d is %s\nwant %s", i, got[i], want[i])
		}
	}
}

func TestRelationsAreAllChecked(t *testing.T) {
	_, all := config.Check(config.From{Modules: module.Settings(modules.All()), File: file(t, "disk: [/dev/a, /dev/a]\nwipe-disk: [/dev/b, /dev/c]\nrun-dir: /var/lib/croft\n")})
	if len(all) != 4 {
		t.Errorf("%d faults are told, want 4: %v", len(all), all)
	}
}

// Files that are no configuration get a short clear error, and aren't read as a whole.
func TestFilesThatAreNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, []byte("heartbeat: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 100<<20); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	for want, name := range map[string]string{
		"is a folder":                   dir,
		"larger than 1 MiB":             large,
		"is a pipe":                     fifo,
		"no such device or address":     filepath.Join(dir, "socket"),
		"is a device":                   "/dev/zero",
		"no such file":                  filepath.Join(dir, "missing"),
		"it isn't text":                 file(t, "heartbeat: 1s\x00\n"),
		"must be YAML in UTF-8":         file(t, "\x7fELF\xff\xfe"),
		"could not find expected":       file(t, "heartbeat: 1s\nlog-le"),
		"did not find expected":         file(t, "heartbeat: 1s\ndisk: [/dev/a, "),
		"found unexpected end":          file(t, "heartbeat: 1s\nexplorer: \"https://ex"),
		"line 2: it has a second":       file(t, "heartbeat: 1s\n---\nheartbeat: 2s\n"),
		"must be a mapping":             file(t, strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
		"it must be a text":             file(t, "log-level: &a info\nlog-format: *a\n"),
		`"<<" (from`:                    file(t, "<<: {heartbeat: 1s}\n"),
		"it must be a duration above 0": file(t, "heartbeat: "+strings.Repeat("x", 1<<19)+"\n"),
	} {
		got := faults(name)
		if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s: %v", want, got)
		}
		for _, text := range got {
			if len(text) > 1024 {
				t.Errorf("%s: the error has %d bytes", want, len(text))
			}
		}
	}
}
