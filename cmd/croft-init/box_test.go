package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-edge/croft/pkg/netns"
)

const patience = 4 * time.Minute

// output is a process's output so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// box is croft-init as the first process of new namespaces. pid is its process ID on the machine.
type box struct {
	*testing.T
	pid            int
	stdout, stderr *output
	ended          chan struct{}
	code           int
}

// start starts croft-init with arguments, on the machine's root or on one of its own.
func start(t *testing.T, root string, args ...string) *box {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"croft-init"}, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+stageRole, rootVariable+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS, Setpgid: true}
	return follow(t, cmd)
}

// follow starts a command that becomes, or is the parent of, a box.
func follow(t *testing.T, cmd *exec.Cmd) *box {
	t.Helper()
	b := &box{T: t, stdout: &output{}, stderr: &output{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = b.stdout, b.stderr
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.pid = cmd.Process.Pid
	go func() {
		defer close(b.ended)
		err := cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			b.stderr.Write([]byte(err.Error()))
		}
		b.code = cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		select {
		case <-b.ended:
		default:
			_ = cmd.Process.Kill()
			<-b.ended
		}
	})
	return b
}

// eventually waits until holds returns true.
func (b *box) eventually(what string, holds func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%s: not within %s\nstdout: %s\nstderr: %s", what, patience, b.stdout, b.stderr)
		}
	}
}

func (b *box) says(text string) {
	b.Helper()
	b.eventually("it must say "+text, func() bool { return strings.Contains(b.stdout.String(), text) })
}

func (b *box) signal(s syscall.Signal) {
	b.Helper()
	if err := syscall.Kill(b.pid, s); err != nil {
		b.Fatal(err)
	}
}

// end waits for its end and returns the exit code.
func (b *box) end() int {
	b.Helper()
	select {
	case <-b.ended:
		return b.code
	case <-time.After(patience):
		b.Fatalf("it must end\nstdout: %s\nstderr: %s", b.stdout, b.stderr)
		return -1
	}
}

// children are the states of a process's children, by process ID.
func children(t *testing.T, of int) map[int]string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]string{}
	for _, path := range entries {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if parent, _ := strconv.Atoi(fields[1]); parent == of {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			out[pid] = fields[0]
		}
	}
	return out
}

// client is an HTTP client in a process's network namespace.
func (b *box) client() *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		var dialer net.Dialer
		failed := netns.Do(netns.OfProcess(uint64(b.pid)), func() error {
			conn, err = dialer.DialContext(ctx, network, address)
			return err
		})
		return conn, failed
	}}
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// terminal is an open terminal.
type terminal struct {
	*box
	conn *websocket.Conn
	seen string
}

// open opens a terminal at an address.
func (b *box) open(address string) *terminal {
	b.Helper()
	client := b.client()
	t := &terminal{box: b}
	b.eventually("a terminal at "+address, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, "http://"+address+"/ws", &websocket.DialOptions{
			HTTPClient: client, HTTPHeader: http.Header{"Origin": {"http://" + address}},
		})
		t.conn = conn
		return err == nil
	})
	b.Cleanup(func() { t.conn.CloseNow() })
	return t
}

func (t *terminal) send(kind websocket.MessageType, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := t.conn.Write(ctx, kind, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func (t *terminal) typed(text string) { t.Helper(); t.send(websocket.MessageBinary, text) }

// shows reads until text is displayed.
func (t *terminal) shows(text string) string {
	t.Helper()
	for !strings.Contains(t.seen, text) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, message, err := t.conn.Read(ctx)
		cancel()
		if err != nil {
			t.Fatalf("%q is never shown: %v; shown is %q", text, err, t.seen)
		}
		t.seen += string(message)
	}
	before, after, _ := strings.Cut(t.seen, text)
	t.seen = after
	return before
}

// reason reads until the end, and returns its reason.
func (t *terminal) reason() string {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, _, err := t.conn.Read(ctx)
		cancel()
		var end websocket.CloseError
		if errors.As(err, &end) {
			return end.Reason
		}
		if err != nil {
			t.Fatalf("it must end with a reason: %v", err)
		}
	}
}
