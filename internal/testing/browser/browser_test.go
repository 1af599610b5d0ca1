package browser_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/browser"
)

// failing is set in a process of this test that opens a page and fails.
const failing = "CROFT_TEST_FAILING"

func TestFailedTestLeavesNothing(t *testing.T) {
	if os.Getenv(failing) != "" {
		p := browser.Open(t, browser.Config{URL: "data:text/html,<title>open</title>"})
		p.Await("document.title", "open")
		t.Fatal("with an open page")
	}
	dir := shortDir(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), failing+"=1", "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "with an open page") {
		t.Fatalf("it must fail with an open page: %v\n%s", err, out)
	}
	if left := processesOf(t, dir); len(left) != 0 {
		t.Errorf("processes are left: %q", left)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestKilledTestLeavesNoBrowser kills a test while its page is open.
func TestKilledTestLeavesNoBrowser(t *testing.T) {
	if dir := os.Getenv(failing); dir != "" {
		browser.Open(t, browser.Config{URL: "data:text/html,open"})
		if err := os.WriteFile(filepath.Join(dir, "open"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-t.Context().Done()
	}
	dir := shortDir(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), failing+"="+dir, "TMPDIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page is open", func() bool {
		_, err := os.Stat(filepath.Join(dir, "open"))
		return err == nil
	})
	if len(processesOf(t, dir)) == 0 {
		t.Error("no process of a browser is found beside an open page: the search is broken")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, "the browser has gone", func() bool { return len(processesOf(t, dir)) == 0 })
}

// shortDir is a temporary folder, whose path Chromium's sockets fit into.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// processesOf are the command lines that name a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(raw), dir) {
			out = append(out, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return out
}
