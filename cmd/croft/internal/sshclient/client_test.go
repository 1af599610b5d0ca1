package sshclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/sshclient"
	"github.com/croft-edge/croft/internal/testing/sshtest"
)

const address = "10.1.2.10"

// machine is a server, and a Config that reaches it.
type machine struct {
	*sshtest.Server
	sshclient.Config
}

func newMachine(t *testing.T, server sshtest.Config, settings ...string) *machine {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	identity := filepath.Join(dir, "identity")
	s, err := sshtest.New(server, identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	program, err := s.Program(dir, address, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{s, sshclient.Config{
		Program: program, User: "root", Address: netip.MustParseAddr(address), Alias: "croft-7-1",
		Keys: []sshclient.HostKey{parsed(t, s.HostKey)}, Identity: identity, Batch: true,
	}}
}

func parsed(t *testing.T, line string) sshclient.HostKey {
	t.Helper()
	k, err := sshclient.ParseHostKey(line)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func foreign(t *testing.T) sshclient.HostKey {
	t.Helper()
	line, err := sshtest.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, line)
}

func says(text string) func(string, io.Writer, io.Writer) uint32 {
	return func(_ string, stdout, _ io.Writer) uint32 {
		_, _ = io.WriteString(stdout, text)
		return 0
	}
}

// fails checks that a run gives a Failure of that cause and nothing else, and leaves no folder behind.
func (m *machine) fails(t *testing.T, want sshclient.Cause) *sshclient.Failure {
	t.Helper()
	out, err := m.Output(t.Context(), "cat it", 1000)
	var f *sshclient.Failure
	if !errors.As(err, &f) || f.Cause != want || out != nil {
		t.Fatalf("got %q, %v (%+v), want the cause %q", out, err, f, want)
	}
	nothingLeft(t)
	return f
}

func nothingLeft(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "croft-ssh-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOutput(t *testing.T) {
	m := newMachine(t, sshtest.Config{Answer: func(command string, stdout, stderr io.Writer) uint32 {
		_, _ = io.WriteString(stderr, "a warning\n")
		_, _ = io.WriteString(stdout, "answer to "+command+"\n")
		return 0
	}})
	out, err := m.Output(t.Context(), "cat 'it'", 1000)
	if err != nil || string(out) != "answer to cat 'it'\n" {
		t.Fatalf("got %q, %v", out, err)
	}
	if got := m.Logins(); len(got) != 1 || got[0] != "root" {
		t.Errorf("logged in: %v", got)
	}
	// Other keys beside the right one change nothing.
	m.Keys = append([]sshclient.HostKey{foreign(t)}, m.Keys...)
	if _, err := m.Output(t.Context(), "cat it", 1000); err != nil {
		t.Error(err)
	}
	nothingLeft(t)
}

// TestTheWrongMachineIsRefused: whatever the user's configuration says of host keys and of shared connections.
func TestTheWrongMachineIsRefused(t *testing.T) {
	for name, settings := range map[string][]string{
		"plain":    nil,
		"careless": {"StrictHostKeyChecking no", "UserKnownHostsFile known", "GlobalKnownHostsFile known", "HostKeyAlias other", "VerifyHostKeyDNS yes", "CheckHostIP yes"},
		"new ones": {"StrictHostKeyChecking accept-new", "UpdateHostKeys yes"},
		"shared":   {"ControlMaster auto", "ControlPath shared", "ControlPersist yes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, sshtest.Config{Answer: says("secret")}, settings...)
			t.Chdir(t.TempDir())
			if err := os.WriteFile("known", []byte(address+","+m.Alias+",other,127.0.0.1 "+m.HostKey), 0o600); err != nil {
				t.Fatal(err)
			}
			m.Keys = []sshclient.HostKey{foreign(t)}
			m.fails(t, sshclient.WrongHost)
			m.Keys = nil
			m.fails(t, sshclient.WrongHost)
			if got := m.Logins(); len(got) > 0 {
				t.Errorf("logged in: %v", got)
			}
		})
	}
}

// TestSharedConnectionsArentUsed: one that is open already, and was checked as another machine's, isn't taken for this one's.
func TestSharedConnectionsArentUsed(t *testing.T) {
	m := newMachine(t, sshtest.Config{Answer: says("secret")}, "ControlPath shared")
	t.Chdir(t.TempDir())
	master := exec.Command(m.Config.Program, "-M", "-N", "-i", m.Identity, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "root@"+address)
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Process.Kill(); _ = master.Wait() })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	shared := func() bool {
		out, err := exec.Command(m.Config.Program, "root@"+address, "x").Output()
		return err == nil && string(out) == "secret"
	}
	for deadline := time.Now().Add(time.Minute); !shared(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("no connection is shared, and so the test shows nothing")
		}
	}
	m.Keys = []sshclient.HostKey{foreign(t)}
	m.fails(t, sshclient.WrongHost)
}

func TestRefusedUser(t *testing.T) {
	f := newMachine(t, sshtest.Config{Refuse: true}).fails(t, sshclient.Denied)
	if !strings.Contains(f.Error(), "Permission denied (publickey)") {
		t.Errorf("got %v", f)
	}
}

func TestNobodyAnswers(t *testing.T) {
	m := newMachine(t, sshtest.Config{})
	m.Close()
	if f := m.fails(t, sshclient.Unreachable); !strings.Contains(f.Error(), "Connection refused") {
		t.Errorf("got %v", f)
	}
}

func TestLostConnection(t *testing.T) {
	var m *machine
	m = newMachine(t, sshtest.Config{Answer: func(string, io.Writer, io.Writer) uint32 {
		go m.Close()
		return 255
	}})
	m.fails(t, sshclient.Unreachable)
}

func TestCommandFails(t *testing.T) {
	m := newMachine(t, sshtest.Config{Answer: func(_ string, stdout, stderr io.Writer) uint32 {
		_, _ = io.WriteString(stdout, "half of it")
		_, _ = io.WriteString(stderr, "one\ntwo\ncat: can't \x1b[2Jopen\r\n\n\u202etfel ot thgir\n"+strings.Repeat("x", 1000))
		return 1
	}})
	if f := m.fails(t, sshclient.CommandFailed); f.Error() != "cat: can't  [2Jopen; tfel ot thgir; "+strings.Repeat("x", 300)+"…" {
		t.Errorf("got %q", f.Error())
	}
}

// TestTooMuchIsCutOff: a machine that never ends is left, and takes no memory.
func TestTooMuchIsCutOff(t *testing.T) {
	m := newMachine(t, sshtest.Config{Answer: func(_ string, stdout, stderr io.Writer) uint32 {
		noise := bytes.Repeat([]byte("y\n"), 4096)
		for {
			if _, err := stdout.Write(noise); err != nil {
				return 1
			}
			if _, err := stderr.Write(noise); err != nil {
				return 1
			}
		}
	}})
	m.fails(t, sshclient.TooMuch)
}

func TestExactlyEnough(t *testing.T) {
	m := newMachine(t, sshtest.Config{Answer: says(strings.Repeat("z", 1000))})
	if out, err := m.Output(t.Context(), "cat it", 1000); err != nil || len(out) != 1000 {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
	m.cutAt(t, 999)
}

func (m *machine) cutAt(t *testing.T, most int) {
	t.Helper()
	var f *sshclient.Failure
	if out, err := m.Output(t.Context(), "cat it", most); out != nil || !errors.As(err, &f) || f.Cause != sshclient.TooMuch {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	m := newMachine(t, sshtest.Config{Answer: func(_ string, stdout, _ io.Writer) uint32 {
		_, _ = io.WriteString(stdout, "half of it")
		cancel()
		<-gone
		return 0
	}})
	out, err := m.Output(ctx, "cat it", 1000)
	close(gone)
	if !errors.Is(err, context.Canceled) || out != nil {
		t.Errorf("got %q, %v", out, err)
	}
	nothingLeft(t)
}

// TestTemporaryFolders: ssh splits and expands the values of its options.
func TestTemporaryFolders(t *testing.T) {
	m := newMachine(t, sshtest.Config{Answer: says("fine")})
	for _, name := range []string{"with two spaces", "100%d", "%", "#1", "a=b,c", "~"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir)
		moved := filepath.Join(dir, "identity")
		if err := os.Rename(m.Identity, moved); err != nil {
			t.Fatal(err)
		}
		m.Identity = moved
		if out, err := m.Output(t.Context(), "cat it", 1000); err != nil || string(out) != "fine" {
			t.Errorf("%q: got %q, %v", name, out, err)
		}
		nothingLeft(t)
	}
}

// TestArguments: ssh gets the flags that the user gives, and private files.
func TestArguments(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	program := filepath.Join(dir, "ssh")
	script := "#!/bin/sh\nfor a; do echo \"$a\"; done\necho files\ncat " + dir + "/croft-ssh-*/known_hosts\nstat -c '%a' " + dir + "/croft-ssh-* " + dir + "/croft-ssh-*/known_hosts\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := sshclient.Config{
		Program: program, User: "root", Address: netip.MustParseAddr(address), Alias: "croft-7-1", Keys: []sshclient.HostKey{foreign(t), foreign(t)},
	}
	run := func() string {
		t.Helper()
		out, err := c.Output(t.Context(), "cat it", 10000)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	out := run()
	want := "root@" + address + "\ncat it\nfiles\ncroft-7-1 " + c.Keys[0].String() + "\ncroft-7-1 " + c.Keys[1].String() + "\n700\n600\n"
	if !strings.HasSuffix(out, want) {
		t.Errorf("got %s\nwant at the end %s", out, want)
	}
	for _, flag := range []string{"IdentityFile", "ProxyJump", "BatchMode", "IdentitiesOnly"} {
		if strings.Contains(out, flag) {
			t.Errorf("%q is in %s", flag, out)
		}
	}
	c.Identity, c.Jump, c.Batch = "/-a 100%d", "me@host:2222", true
	out = run()
	for _, flag := range []string{"-o\nIdentityFile=\"/-a 100%%d\"\n", "-o\nProxyJump=me@host:2222\n", "-o\nBatchMode=yes\n", "-o\nIdentitiesOnly=yes\n", "-o\nStrictHostKeyChecking=yes\n"} {
		if !strings.Contains(out, flag) {
			t.Errorf("%q isn't in %s", flag, out)
		}
	}
}

// TestCauses: what ssh says of a jump host isn't taken for what it says of the machine.
func TestCauses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for text, want := range map[string]sshclient.Cause{
		"": sshclient.Unreachable,
		"ssh: connect to host 10.1.2.10 port 22: No route to host":                                                                      sshclient.Unreachable,
		"root@10.1.2.10: Permission denied (publickey).":                                                                                sshclient.Denied,
		"me@jump: Permission denied (publickey).\nConnection closed by UNKNOWN port 65535":                                              sshclient.Unreachable,
		"Host key for croft-7-1 has changed and you have requested strict checking.\nHost key verification failed.":                     sshclient.WrongHost,
		"No ED25519 host key is known for croft-7-1 and you have requested strict checking.\nHost key verification failed.":             sshclient.WrongHost,
		"Host key for jump has changed and you have requested strict checking.\nHost key verification failed.\nConnection closed by UN": sshclient.Unreachable,
	} {
		program := filepath.Join(dir, "ssh")
		if err := os.WriteFile(program, []byte("#!/bin/sh\ncat >&2 <<'END'\n"+text+"\nEND\nexit 255\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := sshclient.Config{Program: program, User: "root", Address: netip.MustParseAddr(address), Alias: "croft-7-1"}.Output(t.Context(), "x", 10)
		var f *sshclient.Failure
		if !errors.As(err, &f) || f.Cause != want || f.Error() == "" {
			t.Errorf("%q gives %v (%+v), want %s", text, err, f, want)
		}
	}
}

func TestNoProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := sshclient.Config{Program: "no-such-ssh", Address: netip.MustParseAddr(address)}.Output(t.Context(), "x", 10)
	if err == nil || !strings.Contains(err.Error(), "cannot run no-such-ssh, which must be OpenSSH's client") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t)
}
