package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
)

const address = "127.0.0.1:7681"

// newRoot makes a root file system with croft-init, a container's devices in /dev, and programs: names
// in /bin for the tests' own program.
func newRoot(t *testing.T, programs ...string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "croft-root-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(root, 0o755))
	for _, dir := range []string{".croft", "bin", "proc", "sys", "dev", "dev/pts", "tmp", "etc"} {
		must(os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	must(os.Symlink("pts/ptmx", filepath.Join(root, "dev/ptmx")))
	must(copyFile(staticInit, filepath.Join(root, ".croft/init")))
	for _, name := range programs {
		must(copyFile(tool, filepath.Join(root, "bin", name)))
	}
	return root
}

func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o755)
}

func TestATerminalInARootWithOneProgram(t *testing.T) {
	b := start(t, newRoot(t, "sh", "tool"), "--listen", address, "--", "tool", "wait")
	b.says("waiting")
	useTerminal(b)
}

// useTerminal uses a terminal as people do.
func useTerminal(b *box) {
	b.Helper()
	shell := b.open(address)
	shell.shows("shell ready ")
	shell.typed("echo übermut\r")
	shell.shows("<übermut>")
	shell.typed("size\r")
	shell.shows("80 columns 24 rows")
	shell.send(websocket.MessageText, `{"columns":132,"rows":43}`)
	shell.typed("size\r")
	shell.shows("132 columns 43 rows")
	shell.typed("exit 6\r")
	if why := shell.reason(); why != "the shell has ended with code 6" {
		b.Errorf("it ended with %q", why)
	}
	programs := len(children(b.T, b.pid))
	other := b.open(address)
	other.shows("shell ready ")
	if n := len(children(b.T, b.pid)); n != programs+1 {
		b.Errorf("a terminal is %d processes", n-programs)
	}
	other.conn.CloseNow()
	b.eventually("a terminal that is closed ends its shell", func() bool { return len(children(b.T, b.pid)) == programs })
}

func TestManyTerminalsEndTogether(t *testing.T) {
	b := start(t, newRoot(t, "sh"), "--listen", address)
	var open []*terminal
	for range 16 {
		shell := b.open(address)
		shell.shows("shell ready ")
		open = append(open, shell)
	}
	if why := b.open(address).reason(); !strings.Contains(why, "16 terminals are open") {
		t.Errorf("one too many: %q", why)
	}
	if n := len(children(t, b.pid)); n != 16 {
		t.Errorf("%d shells for 16 terminals", n)
	}
	anonymous := memory(t, b.pid, "RssAnon")
	t.Logf("memory with 16 terminals: RssAnon %d KiB, VmRSS %d KiB", anonymous, memory(t, b.pid, "VmRSS"))
	if anonymous > 16<<10 {
		t.Errorf("16 terminals take %d KiB, at most 16 MiB are allowed", anonymous)
	}
	for _, shell := range open {
		shell.conn.CloseNow()
	}
	b.eventually("all shells end", func() bool { return len(children(t, b.pid)) == 0 })
}

// Its memory counts against the container's.
func TestItIsSmall(t *testing.T) {
	info, err := os.Stat(staticInit)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, newRoot(t, "tool"), "--listen", address, "--", "tool", "wait")
	b.says("waiting")
	anonymous := memory(t, b.pid, "RssAnon")
	t.Logf("program %d KiB; memory when idle: RssAnon %d KiB, VmRSS %d KiB", info.Size()>>10, anonymous, memory(t, b.pid, "VmRSS"))
	if info.Size() > 8<<20 || anonymous > 6<<10 {
		t.Errorf("the program has %d bytes, its idle memory is %d KiB: at most 8 MiB and 6 MiB are allowed", info.Size(), anonymous)
	}
}

// memory is a field of a process's status, in KiB.
func memory(t *testing.T, pid int, field string) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s isn't there", field)
	return 0
}

func TestARootWithoutAShellSaysSo(t *testing.T) {
	b := start(t, newRoot(t), "--listen", address)
	if why := b.open(address).reason(); why != "This image has no shell: neither $SHELL nor /bin/bash, /bin/sh, /bin/ash is there." {
		t.Errorf("it ended with %q", why)
	}
	answer, err := b.client().Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(page), "/page.mjs") {
		t.Errorf("the page: %s %v", answer.Status, err)
	}
	b.signal(syscall.SIGTERM)
	if code := b.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
