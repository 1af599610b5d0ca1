package zdb_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/zdb"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/workload"
)

const patience = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// nextPort is where the next world's ports begin. Ports may be taken by nobody
// else: the namespace is the tests'.
var nextPort atomic.Uint32

// world is a module and its zdbs, below a folder of its own whose path is longer
// than a socket's may be.
type world struct {
	t    *testing.T
	dir  string
	cfg  zdb.Config
	log  *journal
	zdbs map[string]*process

	module *zdb.Module
	stub   *stubs.ZDBNamespacesStub
	end    func()
}

// journal keeps what a module logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// newWorld has a module that may give three ports.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.open()
	return w
}

// emptyWorld has no module yet.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	top, err := os.MkdirTemp("", "croft-zdb-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	dir := filepath.Join(top, strings.Repeat("long", 25))
	must(t, os.Mkdir(dir, 0o700))
	first := 20000 + uint16(nextPort.Add(8))
	w := &world{t: t, dir: dir, log: &journal{}, zdbs: map[string]*process{}}
	w.cfg = zdb.Config{StateDir: filepath.Join(dir, "state"), FirstPort: first, LastPort: first + 2, Log: zerolog.New(w.log)}
	t.Cleanup(func() {
		if w.end != nil {
			w.close()
		}
		if t.Failed() {
			t.Logf("the module's log:\n%s", w.log)
		}
	})
	return w
}

// open starts the module and serves it on a bus.
func (w *world) open() {
	w.t.Helper()
	m, err := zdb.Open(w.t.Context(), w.cfg)
	must(w.t, err)
	w.module = m
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	w.end = func() {
		cancel()
		running.Wait()
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	}
	w.stub = stubs.NewZDBNamespacesStub(conformance.OnBus(w.t, node.ZDBModule, bus.Object(node.ZDBObject, node.ZDBVersion), m.Namespaces()))
}

func (w *world) close() {
	w.end()
	w.end = nil
}

func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.open()
}

// process is a zdb that runs.
type process struct {
	cmd  *exec.Cmd
	said *journal
	done chan struct{}
}

// data is a container's volume.
func (w *world) data(container string) string { return filepath.Join(w.dir, "volumes", container) }

// start starts a zdb in a network namespace of its own, and doesn't wait.
func (w *world) start(container string, mode workload.ZDBMode) node.ZDBServerSpec {
	w.t.Helper()
	data := w.data(container)
	must(w.t, os.MkdirAll(data, 0o700))
	p := &process{said: &journal{}, done: make(chan struct{})}
	p.cmd = exec.Command(os.Getenv(toolVariable), "--data", data, "--mode", string(mode), "--no-listen",
		"--admin-socket", filepath.Join(data, "admin.sock"), "--handover", filepath.Join(data, "handover.sock"))
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	must(w.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	w.zdbs[container] = p
	w.t.Cleanup(func() {
		p.stop()
		if w.t.Failed() {
			w.t.Logf("zdb %s said:\n%s", container, p.said)
		}
	})
	return node.ZDBServerSpec{Container: container, Mode: mode, Data: data}
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// kill ends a zdb as kill -9 does.
func (w *world) kill(container string) { w.zdbs[container].stop() }

// attach starts a zdb and takes it in hand.
func (w *world) attach(container string, mode workload.ZDBMode) node.ZDBServer {
	w.t.Helper()
	return w.attachSpec(w.start(container, mode))
}

func (w *world) attachSpec(spec node.ZDBServerSpec) node.ZDBServer {
	w.t.Helper()
	var out node.ZDBServer
	var err error
	eventually(w.t, func() bool {
		out, err = w.stub.Attach(w.t.Context(), spec)
		return node.KindOf(err) != node.Transient
	}, func() any { return err })
	must(w.t, err)
	return out
}

// server is one that is in hand.
func (w *world) server(container string) node.ZDBServer {
	w.t.Helper()
	all, err := w.stub.Servers(w.t.Context())
	must(w.t, err)
	for _, s := range all {
		if s.Container == container {
			return s
		}
	}
	w.t.Fatalf("%s isn't in hand: %+v", container, all)
	panic("not reached")
}

// drift waits until a server's drift is, or says, that.
func (w *world) drift(container, want string) {
	w.t.Helper()
	var got node.ZDBServer
	eventually(w.t, func() bool {
		got = w.server(container)
		return want == "" && got.Drift == "" || want != "" && strings.Contains(got.Drift, want)
	}, func() any { return fmt.Sprintf("%+v, want drift %q", got, want) })
}

// eventually waits until a condition holds, and reports the last observation when it doesn't.
func eventually(t testing.TB, holds func() bool, seen func() any) {
	t.Helper()
	late := time.After(patience)
	for !holds() {
		select {
		case <-late:
			t.Fatalf("%s have passed: %v", patience, seen())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ping queries the server at a port of the node, with a connection of its own.
func ping(port uint16) error {
	conn, err := redis.Dial("tcp", net.JoinHostPort(nodeIPv4, strconv.Itoa(int(port))),
		redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		return err
	}
	defer conn.Close()
	pong, err := redis.String(conn.Do("PING"))
	if err == nil && pong != "PONG" {
		err = fmt.Errorf("it says %q", pong)
	}
	return err
}

// descriptors counts the open files of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// tell writes to a connection and ignores that it may be gone.
func tell(conn net.Conn, text string) { _, _ = io.WriteString(conn, text) }
