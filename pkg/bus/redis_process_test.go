package bus_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redisProcess is one test's real redis-server.
type redisProcess struct {
	t      *testing.T
	dir    string
	socket string
	extra  []string
	cmd    *exec.Cmd
}

func startRedis(t *testing.T, extra ...string) *redisProcess {
	t.Helper()
	p := &redisProcess{t: t, dir: shortDir(t), extra: extra}
	p.socket = filepath.Join(p.dir, "redis.sock")
	p.start()
	t.Cleanup(p.kill)
	return p
}

// shortDir is a temporary folder whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-bus-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *redisProcess) url() string { return "unix://" + p.socket }

func (p *redisProcess) start() {
	p.t.Helper()
	args := append([]string{"--port", "0", "--unixsocket", p.socket, "--unixsocketperm", "600",
		"--save", "", "--appendonly", "no", "--dir", p.dir}, p.extra...)
	p.cmd = exec.Command("redis-server", args...)
	p.cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("cannot start redis-server: %v", err)
	}
	eventually(p.t, 10*time.Second, "redis answers", func() bool {
		c, err := redis.Dial("unix", p.socket)
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Do("PING")
		return err == nil || err.Error()[:6] == "NOAUTH"
	})
}

// kill ends it at once, frozen or not; it can be started again.
func (p *redisProcess) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.cmd = nil
}

func (p *redisProcess) freeze() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
}

func (p *redisProcess) thaw() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
}

// do runs one command on a connection of its own.
func (p *redisProcess) do(command string, args ...any) any {
	p.t.Helper()
	c, err := redis.Dial("unix", p.socket)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do(command, args...)
	if err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
	return reply
}

func (p *redisProcess) length(key string) int64 {
	p.t.Helper()
	return p.do("LLEN", key).(int64)
}

// connections counts those to redis, without its own.
func (p *redisProcess) connections() int {
	p.t.Helper()
	list, err := redis.String(p.do("CLIENT", "LIST"), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for _, c := range list {
		if c == '\n' {
			n++
		}
	}
	return n - 1
}

// freePort is a loopback port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// eventually polls until ok returns true.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s it is still not so that %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// within runs f and fails when it takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit + 10*time.Second):
		panic(fmt.Sprintf("%s: %s hangs", t.Name(), what))
	}
	if took := time.Since(start); took > limit {
		t.Errorf("%s took %s, at most %s are allowed", what, took.Round(time.Millisecond), limit)
	}
}

// slack is how late a loaded machine may be. It is shorter than the grace of world.options
// and than the client's own timeout: who waits for one of them is still found.
const slack = 4 * time.Second

// onTime runs f, which has d to return, until one run keeps the deadline: the best run
// shows how well it is kept, whatever the machine's load. No run may hang.
func onTime(t *testing.T, d time.Duration, what string, f func(ctx context.Context)) {
	t.Helper()
	best := time.Hour
	for range 50 {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		start := time.Now()
		within(t, slack, what, func() { f(ctx) })
		best = min(best, time.Since(start))
		cancel()
		if best <= d+30*time.Millisecond || t.Failed() {
			return
		}
	}
	t.Errorf("%s returned %s after its deadline at best", what, (best - d).Round(time.Millisecond))
}

func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
