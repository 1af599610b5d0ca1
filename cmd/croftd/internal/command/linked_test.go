package command_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNoMethodIsLookedUp holds that nothing in croftd looks up methods by names that only its run tells, as text/template does: for that the
// linker keeps every exported method of every type, and croftd is a fifth larger (docs/adr/0050-linked-methods.md). The failure names who does.
func TestNoMethodIsLookedUp(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "croftd"), "github.com/croft-edge/croft/cmd/croftd")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	var who []string
	edges := 0
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, " -> ") {
			continue
		}
		edges++
		if from, _, is := strings.Cut(line, " <ReflectMethod>"); is && !slices.Contains(who, from) {
			who = append(who, from)
		}
	}
	if edges < 1000 {
		t.Errorf("the linker tells only %d dependences: does it still know -dumpdep?", edges)
	}
	if len(who) > 0 {
		t.Errorf("these look up methods: %s", strings.Join(who, ", "))
	}
}
