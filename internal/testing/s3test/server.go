// Package s3test runs bootstrap/s3server, a real S3 server, for tests, and a proxy in front of it that makes it slow, broken or a
// liar. It listens on loopback addresses, keeps objects in memory, and ends with the test.
package s3test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/filelock"
)

// The keys and the bucket of every server.
const (
	Access = "croft-test"
	Secret = "croft-test-secret"
	Bucket = "croft"
)

// Server is a server, which can be stopped and started again on its address, with what it has.
type Server struct {
	// Address is its HOST:PORT.
	Address string

	t       testing.TB
	folder  string
	process *exec.Cmd
	stdin   io.Closer
}

// built returns the server's program, which is compiled when it or its sources are new: bin/s3server of this clone.
func built(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := filelock.Wait(t.Context(), filepath.Join(bin, ".s3server.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	path, source := filepath.Join(bin, "s3server"), filepath.Join(root, "bootstrap", "s3server")
	if current(path, filepath.Join(source, "main.go"), filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum")) {
		return path
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the S3 server: %v: %s", err, out)
	}
	return path
}

// current reports whether a program is newer than its sources.
func current(program string, sources ...string) bool {
	made, err := os.Stat(program)
	if err != nil {
		return false
	}
	for _, path := range sources {
		if info, err := os.Stat(path); err != nil || !info.ModTime().Before(made.ModTime()) {
			return false
		}
	}
	return true
}

// moduleRoot is the folder with croft's go.mod above the test's.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), "module github.com/croft-edge/croft\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this isn't in croft's source: there is no go.mod above")
		}
	}
}

// New starts a server.
func New(t testing.TB) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "croft-s3server-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &Server{t: t, folder: folder, Address: "127.0.0.1:0"}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server, after Stop.
func (s *Server) Start() {
	s.t.Helper()
	path := built(s.t)
	var said bytes.Buffer
	s.process = exec.Command(path, "-folder", s.folder, "-bucket", Bucket, "-address", s.Address) //nolint:noctx // Stop ends it, and so does the end of its input
	s.process.Env = append(os.Environ(), "S3SERVER_ACCESS="+Access, "S3SERVER_SECRET="+Secret)
	s.process.Stderr = &said
	out, err := s.process.StdoutPipe()
	if err == nil {
		s.stdin, err = s.process.StdinPipe()
	}
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			if s.Address != address { // at the first start: later others read it
				s.Address = address
			}
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	_ = s.process.Wait()
	s.t.Fatalf("the S3 server doesn't start: %s", &said)
}

// Stop stops the server; twice does nothing.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	_ = s.stdin.Close()
	gone := time.AfterFunc(10*time.Second, func() { _ = s.process.Process.Kill() })
	_ = s.process.Wait()
	gone.Stop()
	s.process = nil
}
