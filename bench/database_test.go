package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// database is a running server: zdb or redis.
type database struct {
	cmd    *exec.Cmd
	port   int
	socket string
	// own selects this package's load rather than redis-benchmark.
	own bool
	// next is the number of the last key made, loads the number of loads so far.
	next, loads int
}

func startRedis(b *testing.B) *database {
	b.Helper()
	dir := shortDir(b)
	s := &database{port: freePort(b), socket: filepath.Join(dir, "s")}
	s.start(b, exec.Command("redis-server", "--port", strconv.Itoa(s.port), "--unixsocket", s.socket,
		"--save", "", "--appendonly", "no", "--dir", dir, "--maxclients", "200"))
	return s
}

func startZDB(b *testing.B, data, mode string, args ...string) *database {
	b.Helper()
	s := &database{port: freePort(b), socket: filepath.Join(shortDir(b), "s")}
	s.start(b, exec.Command(zdbBinary(b), append([]string{"--data", data, "--mode", mode, "--listen", "127.0.0.1", "--port", strconv.Itoa(s.port),
		"--socket", s.socket, "--log-level", "warn"}, args...)...))
	return s
}

// start starts a server and waits until it answers.
func (s *database) start(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.cmd = cmd
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	s.answers(b)
}

// again starts the server again with the same arguments.
func (s *database) again(b *testing.B) {
	b.Helper()
	s.start(b, exec.Command(s.cmd.Path, s.cmd.Args[1:]...))
}

// answers waits until the server answers.
func (s *database) answers(b *testing.B) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.port))
		if err != nil {
			continue
		}
		_, err = conn.Write(bulk(nil, []byte("PING")))
		reply := make([]byte, 7)
		if err == nil {
			_, err = conn.Read(reply)
		}
		_ = conn.Close()
		if err == nil && string(reply) == "+PONG\r\n" {
			return
		}
	}
	b.Fatalf("%s doesn't answer", s.cmd.Path)
}

// end stops the server, and waits for its end.
func (s *database) end() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

// resident is its resident memory, in bytes.
func (s *database) resident(b *testing.B) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return n * 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// shortDir is a folder whose path is short enough for sockets.
func shortDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "zdb")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func freePort(b *testing.B) int {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
