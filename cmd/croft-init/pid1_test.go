package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestOrphansAreCollected(t *testing.T) {
	b := start(t, "", "--", "bash", "-c", "for i in $(seq 3000); do (: & ) ; done; (sleep 1 & ); echo made; exec sleep 1000")
	b.says("made")
	b.eventually("only the program is left", func() bool {
		left := children(t, b.pid)
		for _, state := range left {
			if len(left) == 1 && state != "Z" {
				return true
			}
		}
		return false
	})
}

func TestSignalsReachTheProgramsGroup(t *testing.T) {
	b := start(t, "", "--", tool, "signals", "parent")
	b.says("parent ready")
	b.says("child ready")
	const realTime = syscall.Signal(37)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGALRM, realTime} {
		b.signal(s)
		for _, who := range []string{"parent", "child"} {
			b.says(fmt.Sprintf("%s %d\n", who, int(s)))
		}
	}
	b.signal(syscall.SIGTERM) // which the child may not live to report
	b.says("parent 15\n")
	if code := b.end(); code != 9 {
		t.Errorf("it ended with %d, the program with 9", code)
	}
}

func TestItEndsAsItsProgram(t *testing.T) {
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		want  int
		error string
	}{
		{[]string{tool, "exit", "0"}, 0, ""},
		{[]string{tool, "exit", "3"}, 3, ""},
		{[]string{tool, "exit", "255"}, 255, ""},
		{[]string{tool, "kill", "9"}, 137, ""},
		{[]string{tool, "kill", "15"}, 143, ""},
		{[]string{"sh", "-c", "exit 4"}, 4, ""},
		{[]string{"nothing-of-that-name", "x"}, 127, `croft-init: cannot start "nothing-of-that-name"`},
		{[]string{"/no/such/program"}, 127, `croft-init: cannot start "/no/such/program"`},
		{[]string{plain}, 126, "croft-init: cannot start"},
		{[]string{os.TempDir()}, 126, "croft-init: cannot start"},
	} {
		b := start(t, "", append([]string{"--"}, c.args...)...)
		if code := b.end(); code != c.want {
			t.Errorf("%q: exit code %d, must be %d", c.args, code, c.want)
		}
		if got := b.stderr.String(); !strings.HasPrefix(got, c.error) || c.error == "" && got != "" {
			t.Errorf("%q: it writes %q, must be %q", c.args, got, c.error)
		}
	}
}

func TestOutputIsTheProgramsAlone(t *testing.T) {
	b := start(t, "", "--listen", "127.0.0.1:7681", "--", tool, "say", "hello", "you")
	if code := b.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, err := b.stdout.String(), b.stderr.String(); out != "hello you\n" || err != "and an error\n" {
		t.Errorf("stdout %q, stderr %q", out, err)
	}
}

func TestServesWithoutProgramUntilSignalled(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		b := start(t, "", "--listen", "127.0.0.1:7681")
		shell := b.open("127.0.0.1:7681")
		b.signal(syscall.SIGUSR1) // which the program ignores
		shell.typed("echo st$((1))ll\n")
		shell.shows("st1ll")
		b.signal(s)
		if why := shell.reason(); why != "the container has ended" {
			t.Errorf("the terminal ended: %s", why)
		}
		if code := b.end(); code != 0 {
			t.Errorf("signal %d: exit code %d, must be 0", s, code)
		}
	}
}

// A terminal doesn't keep the container up, nor do processes started in one.
func TestTheProgramsEndIsTheEnd(t *testing.T) {
	b := start(t, "", "--listen", "127.0.0.1:7681", "--", "bash", "-c", "trap 'exit 5' USR1; while :; do sleep 1 & wait; done")
	shell := b.open("127.0.0.1:7681")
	shell.typed("trap '' HUP TERM; echo re$((1))dy\n")
	shell.shows("re1dy")
	b.signal(syscall.SIGUSR1)
	if code := b.end(); code != 5 {
		t.Errorf("exit code %d, must be 5", code)
	}
}

func TestTheTerminalIsWhereItIsAskedToBe(t *testing.T) {
	b := start(t, "", "--listen", "127.0.0.1:7681,[::1]:7681,127.0.0.9:7682", "--name", "box.net1", "--", tool, "wait")
	b.says("waiting")
	client := b.client()
	for address, want := range map[string]bool{
		"127.0.0.1:7681": true, "[::1]:7681": true, "127.0.0.9:7682": true,
		"127.0.0.2:7681": false, "127.0.0.1:7682": false, "127.0.0.9:7681": false,
	} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: answers %v, must be %v: %v", address, err == nil, want, err)
		}
	}
	for host, want := range map[string]int{"guest:7681": 200, "guest.croft.internal:7681": 200, "box.net1:7681": 200, "evil.example:7681": 421, "guest.evil.example:7681": 421} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:7681/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("host %s: %s, must be %d", host, answer.Status, want)
		}
	}
}

func TestBadArgumentsAreReported(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "7681"}, `cannot listen at "7681": must be IP:PORT`},
		{[]string{"--listen", "10.1.1.1:7681,box:1"}, `cannot listen at "box:1"`},
		{[]string{"--listen", "10.1.1.1:0"}, `cannot listen at "10.1.1.1:0"`},
		{[]string{"--listen", "[fe80::1%eth0]:7681"}, "cannot listen at"},
		{[]string{"--nothing"}, "not defined: -nothing"},
	} {
		b := start(t, "", c.args...)
		if code := b.end(); code != 2 || !strings.Contains(b.stderr.String(), c.want) || !strings.Contains(b.stderr.String(), "usage: croft-init") {
			t.Errorf("%q: exit code %d, says %q", c.args, code, b.stderr)
		}
	}
}
