package container

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// TestTheImageOfZDB: the image holds the configured program, and a node without one goes on and logs
// it.
func TestTheImageOfZDB(t *testing.T) {
	program := filepath.Join(t.TempDir(), "zdb")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/croft-edge/croft/cmd/croft-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := filepath.Join(t.TempDir(), "zdb")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ program, says string }{
		"a static program": {program, ""},
		"a script":         {script, "it isn't a program"},
		"missing":          {"/no/zdb", "there is no program /no/zdb"},
		"not beside it":    {"", "zdb is not installed beside croftd"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines bytes.Buffer
			settings := config.Config{StateDir: t.TempDir(), Containers: config.Containers{ZDBBinary: c.program}}
			own := ownImages(settings, zerolog.New(&lines))
			if (c.says == "") != (len(own) == 1) || !strings.Contains(lines.String(), c.says) {
				t.Errorf("it made %v, and said %s", own, lines.String())
			}
			if c.says == "" {
				if _, err := os.Stat(filepath.Join(own["zdb"], "index.json")); err != nil || filepath.Dir(own["zdb"]) != ownImageFolder(settings) {
					t.Errorf("it made %v (%v)", own, err)
				}
			}
		})
	}
}
