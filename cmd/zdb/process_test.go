package main

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"
)

// TestMain lets the test's binary be zdb itself, so that the tests below run the real main in a process
// of its own, with the race detector.
func TestMain(m *testing.M) {
	if os.Getenv("CROFT_TEST_MAIN") == "zdb" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// process is a running zdb.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	at   map[string]string // its addresses: tcp, unix, handover, metrics
	errs lines
	done chan struct{}
}

// lines collects a process's output, for concurrent use.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CROFT_TEST_MAIN=zdb")
	return cmd
}

// launch starts zdb on any free port, and waits until it is ready.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return begin(t, command(append([]string{"--listen", "127.0.0.1", "--port", "0"}, args...)...))
}

func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, at: map[string]string{}, done: make(chan struct{})}
	p.cmd.Stderr = &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	for from := bufio.NewReader(out); ; {
		line, err := from.ReadString('\n')
		if err != nil {
			_ = p.cmd.Wait()
			close(p.done)
			t.Fatalf("it ended before it was ready: %v; %s", err, p.errs.String())
		}
		if line == "ready\n" {
			break
		}
		kind, where, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), " ")
		p.at[kind] = where
	}
	go func() {
		_ = p.cmd.Wait() // the state is in cmd.ProcessState
		close(p.done)
	}()
	return p
}

// end sends the signal, waits for the process to end and returns its state.
func (p *process) end(sig syscall.Signal) *os.ProcessState {
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("it doesn't end within a minute: %s", p.errs.String())
	}
	return p.cmd.ProcessState
}

// orderly checks that the process ends after SIGTERM, with status 0.
func (p *process) orderly() {
	p.t.Helper()
	if state := p.end(syscall.SIGTERM); !state.Success() {
		p.t.Errorf("it ended with %v: %s", state, p.errs.String())
	}
}

// client connects over TCP.
func (p *process) client() redis.Conn {
	p.t.Helper()
	return dial(p.t, "tcp", p.at["tcp"])
}

func dial(t *testing.T, network, address string) redis.Conn {
	t.Helper()
	c, err := redis.Dial(network, address, redis.DialReadTimeout(time.Minute), redis.DialWriteTimeout(time.Minute))
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fails runs zdb to its end, which must be with status 1, and returns its output.
func fails(t *testing.T, args ...string) string {
	t.Helper()
	cmd := command(args...)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("zdb %q: %v, want exit status 1: %s", args, err, out)
	}
	return string(out)
}

// shortDir is a folder whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "zdb")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// shipped builds zdb as `make build` does.
func shipped(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zdb")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// listener is a listening TCP socket, and its file.
func listener(t *testing.T) (address string, f *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f, err = l.(*net.TCPListener).File()
	must(t, err)
	must(t, l.Close())
	t.Cleanup(func() { _ = f.Close() })
	return l.Addr().String(), f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
