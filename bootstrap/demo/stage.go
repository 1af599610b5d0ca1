package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/croft-edge/croft/modules/network"
)

// stage is where everything happens: one folder, and the programs that run in it.
type stage struct {
	bin, dir string
	// image is the image of virtual machines, a folder; empty for the small guest.
	image string
}

// bus is the URL of the node's bus.
func (s *stage) bus() string { return "unix://" + s.path("run", "bus.sock") }

func (s *stage) path(name ...string) string {
	return filepath.Join(append([]string{s.dir}, name...)...)
}

// environ is this process's environment without croft's settings, those of the machine
// and those of its user.
func (s *stage) environ() []string {
	out := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CROFT_") || strings.HasPrefix(v, "XDG_CONFIG_HOME=")
	})
	return append(out, "HOME="+s.dir, "CROFT_CONFIG="+s.path("croftd.yaml"))
}

// start runs a program in the background; its output goes to a log file.
func (s *stage) start(name, program string, args ...string) (*process, error) {
	return s.begin(name, exec.Command(filepath.Join(s.bin, program), args...))
}

// begin starts a command in the background; its output goes to a log file. Variables that it has are added to the demo's environment.
func (s *stage) begin(name string, cmd *exec.Cmd) (*process, error) {
	log := s.path(name + ".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(s.environ(), cmd.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// output runs a program to its end and returns its standard output.
func (s *stage) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Env = s.environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), err
}

// showLogs prints the end of each log, to debug a failure.
func (s *stage) showLogs() {
	logs, _ := filepath.Glob(s.path("*.log"))
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 4000 {
			_, _ = f.Seek(-4000, io.SeekEnd)
		} else {
			_, _ = f.Seek(0, io.SeekStart)
		}
		end, _ := io.ReadAll(f)
		f.Close()
		fmt.Fprintf(os.Stderr, "\n--- the end of %s\n%s\n", path, end)
	}
}

// group is the control group that those of the demo's containers are made in.
func (s *stage) group() string { return filepath.Base(s.dir) }

// containerFlags keep the demo's containers apart from others of this machine.
func (s *stage) containerFlags() []string {
	return []string{"--containerd", "own", "--container-cgroup", s.group()}
}

// takeBack takes the node's containers, networks and pools away, as an operator would who
// gives the machine back. A demo that failed has to say --force: volumes are there.
func (s *stage) takeBack(ctx context.Context, force string) error {
	folders := []string{"--state-dir", s.path("state"), "--run-dir", s.path("run")}
	down := append(append([]string{"container", "down"}, folders...), s.containerFlags()...)
	vms := append(append([]string{"vm", "down"}, folders...), s.containerFlags()...)
	for _, order := range [][]string{vms, down} {
		if _, err := s.output(ctx, "croftd", order...); err != nil {
			return err
		}
	}
	if _, err := s.output(ctx, "croftd", append([]string{"network", "down"}, folders...)...); err != nil {
		return err
	}
	destroy := append([]string{"storage", "destroy", "--all", "--yes"}, folders...)
	if force != "" {
		destroy = append(destroy, force)
	}
	_, err := s.output(ctx, "croftd", destroy...)
	return err
}

// leftovers lists mounts, loop devices, links, control groups and processes that the demo has made.
func (s *stage) leftovers() ([]string, error) {
	var left []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, s.dir) {
			left = append(left, "mount "+line)
		}
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(backing), s.dir) {
			left = append(left, "loop device "+file+" of "+strings.TrimSpace(string(backing)))
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, prefix := range (network.Config{Dir: s.path("run", "network")}).LinkPrefixes() {
		for _, l := range links {
			if strings.HasPrefix(l.Name, prefix) { // not those of other nodes on this machine
				left = append(left, "link "+l.Name)
			}
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // version 2 alone, and version 1
		groups, err := filepath.Glob(pattern + s.group() + "*")
		if err != nil {
			return nil, err
		}
		for _, group := range groups {
			left = append(left, "control group "+group)
		}
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range commands {
		command, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(command), s.dir) {
			left = append(left, "process "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return left, nil
}

// process is a child with its log.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the process in order, or by force after ten seconds.
func (p *process) stop() {
	if p == nil || !p.running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func say(format string, args ...any) { fmt.Printf("        "+format+"\n", args...) }

// show prints a command's output, indented.
func show(out []byte) {
	for _, line := range strings.Split(strings.TrimRight(string(out), "\n"), "\n") {
		say("%s", line)
	}
}

// until asks again and again until ok, for at most limit.
func until(ctx context.Context, limit time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		done, err := ok()
		if done && err == nil {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, errors.Join(last, ctx.Err()))
		case <-tick.C:
		}
	}
}

// answers reports whether url answers with 200.
func answers(ctx context.Context, url string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK, nil
}
