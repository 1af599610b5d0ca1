package zdb_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is zdb itself, as it is shipped.
type process struct {
	program string
	args    []string
	cmd     *exec.Cmd
	errs    output
	done    chan error
}

// output is a buffer that may be read while a process still writes to it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Reset()
}

// programs is the folder of the built program; TestMain removes it.
var programs string

// built builds cmd/zdb as it is shipped, once for all tests.
var built = sync.OnceValues(func() (program string, err error) {
	if programs, err = os.MkdirTemp("", "zdb-program-"); err != nil {
		return "", err
	}
	program = filepath.Join(programs, "zdb")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/croft-edge/croft/cmd/zdb")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// build returns the path of cmd/zdb.
func build(t *testing.T) string {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func (p *process) start(t *testing.T) string {
	t.Helper()
	args := append([]string{"--data", "data", "--index", "index", "--listen", "127.0.0.1", "--port", "0", "--log-level", "warn"}, p.args...)
	p.errs.Reset()
	// Not the test's context: a cleanup ends it, in order.
	p.cmd = exec.CommandContext(context.Background(), p.program, args...)
	p.cmd.Stderr = &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		if at, ok := strings.CutPrefix(lines.Text(), "listening on tcp "); ok {
			address = at
		}
	}
	p.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(p.cmd, p.done)
	t.Cleanup(func() { p.stop(t) })
	if address == "" {
		t.Fatalf("zdb %v isn't ready", args)
	}
	return address
}

// stop ends it with SIGTERM, and wants it to end in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.wait(t)
}

func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("zdb ended with %v: %s", err, p.errs.String())
		}
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		t.Errorf("zdb doesn't end: %v", <-p.done)
	}
	p.cmd = nil
}

// ended wants STOP to have ended it.
func (p *process) ended(t *testing.T) {
	t.Helper()
	p.wait(t)
}

// The shipped binary answers as the transcripts say, too.
func TestTranscriptsWithTheProgram(t *testing.T) {
	program := build(t)
	for version, want := range totals {
		all := play(t, version, func(t *testing.T, s suite, version string) running {
			args := s.Args
			if version == "v1-2020-03" {
				args = append([]string{"--compat", "v1"}, args...)
			}
			if s.Build == "debug" {
				args = append([]string{"--debug-commands"}, args...)
			}
			return &process{program: program, args: args}
		})
		if all != want {
			t.Errorf("%s: %v, want %v", version, all, want)
		}
	}
}
