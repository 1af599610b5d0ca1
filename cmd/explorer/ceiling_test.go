package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// documentedCeiling is the explorer's row in the table of limits in docs/security.md.
func documentedCeiling(t *testing.T) cgroup.Limits {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	row := regexp.MustCompile("(?m)^\\| `explorer` \\|[^|]*\\| (\\d+) MiB \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|").FindSubmatch(text)
	if row == nil {
		t.Fatal("docs/security.md has no ceilings of the explorer")
	}
	n := [4]uint64{}
	for i, figure := range row[1:] {
		n[i], err = strconv.ParseUint(string(figure), 10, 64)
		must(t, err)
	}
	return cgroup.Limits{Memory: n[0] << 20, PIDs: n[1], IOWeight: n[2], CPUWeight: n[3]}
}

// TestCeiling compares the documented limits with the control group of a running explorer, also of one
// that replaces a killed one, and with the operator's settings.
func TestCeiling(t *testing.T) {
	db := filepath.Join(t.TempDir(), "e.db")
	for _, c := range []struct {
		args   []string
		memory uint64
		end    syscall.Signal
	}{
		{nil, documentedCeiling(t).Memory, syscall.SIGKILL},
		{[]string{"--max-memory", "600"}, 600 << 20, syscall.SIGKILL},
		{[]string{"--max-memory", "0"}, 0, syscall.SIGTERM},
	} {
		p := run(t, append([]string{"--db", db}, c.args...)...)
		group := cgroup.Of(p.cmd.Process.Pid, groupOf(db))
		if len(group.Folders()) == 0 {
			t.Fatal("the explorer isn't in a group of its own")
		}
		want, got := documentedCeiling(t), group.Limits(cgroup.Limits{Memory: 1, PIDs: 1, IOWeight: 1, CPUWeight: 1})
		want.Memory = c.memory
		if got.IOWeight == 0 {
			want.IOWeight = 0 // the kernel has no disk weights
		}
		if got != want {
			t.Errorf("%v: the explorer is limited to %+v, the documents say %+v", c.args, got, want)
		}
		p.end(c.end)
		for _, dir := range group.Folders() {
			if _, err := os.Stat(dir); c.end == syscall.SIGTERM && !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
	}
}

// TestRunsWithoutControlGroups: an explorer without the right to make control groups.
func TestRunsWithoutControlGroups(t *testing.T) {
	const nobody = 65534
	dir, err := os.MkdirTemp("", "croft-explorer-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	home := filepath.Join(dir, "home")
	must(t, os.Mkdir(home, 0o755))
	must(t, os.Chown(home, nobody, nobody))
	cmd := command("--listen", "127.0.0.1:0", "--db", filepath.Join(home, "e.db"))
	cmd.Path = copyProgram(t, dir)
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	p := start(t, cmd)
	if _, err := client(t, p.url, nil).Info(t.Context()); err != nil {
		t.Error(err)
	}
	p.end(syscall.SIGTERM)
	if !strings.Contains(p.errs.String(), "some limits of the explorer can't be set on this machine") {
		t.Errorf("it doesn't say that it has no ceiling: %s", p.errs.String())
	}
	if state := p.cmd.ProcessState; !state.Success() || strings.Contains(p.errs.String(), `"level":"warn"`) {
		t.Errorf("%s; %s", state, p.errs.String())
	}
}

// copyProgram copies this program to a place where everybody can run it.
func copyProgram(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	must(t, err)
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "explorer"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(to, from)
	must(t, err)
	must(t, to.Close())
	return to.Name()
}
