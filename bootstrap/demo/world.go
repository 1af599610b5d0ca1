package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// world is everything that the demo has made: one folder and a few processes.
type world struct {
	bin, dir string

	explorer, node  *process
	explorerAddress string
	liar            *liar
	nodeID          string
	user, stranger  string
	kept            map[string]volume

	net private
	db  store
	// pid is the process of the container that serves.
	pid uint64
	// links are those of other nodes: they were there before.
	links []string
}

// volume is what the demo remembers of a volume that it asked for.
type volume struct {
	id   string
	path string
}

func newWorld(bin string) (*world, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	// /var/tmp is on a disk: /tmp may be memory, too small for a pool.
	dir, err := os.MkdirTemp("/var/tmp", "croft-demo-")
	if err != nil {
		return nil, err
	}
	// A container's root is nobody on the node, and walks through this folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "croftd.yaml"), nil, 0o600); err != nil {
		return nil, err
	}
	say("everything happens in %s", dir)
	links, err := croftLinks()
	return &world{bin: bin, dir: dir, kept: map[string]volume{}, links: links}, err
}

func (w *world) path(name ...string) string {
	return filepath.Join(append([]string{w.dir}, name...)...)
}

func say(format string, args ...any) { fmt.Printf("        "+format+"\n", args...) }

// process is a child with its log.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// environ is this process's environment without what it says to croft: neither the
// machine's settings nor its user's have a part in the demo.
func (w *world) environ() []string {
	out := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CROFT_") || strings.HasPrefix(v, "XDG_CONFIG_HOME=")
	})
	return append(out, "HOME="+w.dir, "CROFT_CONFIG="+w.path("croftd.yaml"))
}

// start runs a program in the background; its output goes to a log file.
func (w *world) start(name, program string, args ...string) (*process, error) {
	log := w.path(name + ".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(w.bin, program), args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = w.environ()
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

// output runs a program to its end and returns what it printed.
func (w *world) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, program), args...)
	cmd.Env = w.environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), err
}

// croft runs the user's CLI as the demo's user.
func (w *world) croft(ctx context.Context, args ...string) ([]byte, error) {
	return w.croftAs(ctx, "user.seed", args...)
}

func (w *world) croftAs(ctx context.Context, key string, args ...string) ([]byte, error) {
	global := []string{"--explorer", "http://" + w.explorerAddress, "--id", w.path(key)}
	return w.output(ctx, "croft", append(global, args...)...)
}

// croftJSON runs the CLI with -o json and decodes what it printed.
func (w *world) croftJSON(ctx context.Context, into any, args ...string) error {
	out, err := w.croft(ctx, append([]string{"-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("croft %s printed no JSON: %w: %.300s", strings.Join(args, " "), err, out)
	}
	return nil
}

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

// showLogs prints the end of each log, for whoever has to find out why.
func (w *world) showLogs() {
	logs, _ := filepath.Glob(w.path("*.log"))
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
