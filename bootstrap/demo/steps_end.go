package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// deleteRest deletes what is left, with deletions that the user signs.
func deleteRest(ctx context.Context, w *world) error {
	for name, v := range w.kept {
		if _, err := w.croft(ctx, "delete", v.id, "--wait", "--yes"); err != nil {
			return err
		}
		if _, err := os.Lstat(v.path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("volume %s was deleted and %s is still there", v.id, v.path)
		}
		if err := w.wantState(ctx, v.id, "deleted"); err != nil {
			return err
		}
		say("%s (%s) is gone; the node says so, signed", v.id, name)
	}
	if err := w.wantVolumes(ctx, 0); err != nil {
		return err
	}
	return w.wantSubvolumes(0)
}

// nothingLeft takes the node down and looks for anything that stayed.
func nothingLeft(ctx context.Context, w *world) error {
	w.node.stop()
	w.explorer.stop()
	if err := w.takeBack(ctx, ""); err != nil {
		return err
	}
	left, err := w.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	}
	say("no subvolume, no namespace, no mount, no control group, no loop device, no process")
	return nil
}

// takeBack takes the node's containers, networks and pools away, as an operator would who
// gives the machine back. A demo that failed has to say --force: volumes are there.
func (w *world) takeBack(ctx context.Context, force string) error {
	folders := []string{"--state-dir", w.path("state"), "--run-dir", w.path("run")}
	down := append(append([]string{"container", "down"}, folders...), containerFlags(w)...)
	if _, err := w.output(ctx, "croftd", down...); err != nil {
		return err
	}
	if _, err := w.output(ctx, "croftd", append([]string{"network", "down"}, folders...)...); err != nil {
		return err
	}
	destroy := append([]string{"storage", "destroy", "--all", "--yes"}, folders...)
	if force != "" {
		destroy = append(destroy, force)
	}
	_, err := w.output(ctx, "croftd", destroy...)
	return err
}

// leftovers lists mounts, loop devices and processes that the demo has made.
func (w *world) leftovers() ([]string, error) {
	var left []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, w.dir) {
			left = append(left, "mount "+line)
		}
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(backing), w.dir) {
			left = append(left, "loop device "+file+" of "+strings.TrimSpace(string(backing)))
		}
	}
	now, err := croftLinks()
	if err != nil {
		return nil, err
	}
	for _, name := range now {
		if !slices.Contains(w.links, name) {
			left = append(left, "link "+name)
		}
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + w.group())
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		left = append(left, "control group "+group)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range commands {
		command, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(command), w.dir) {
			left = append(left, "process "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return left, nil
}

// croftLinks are the names of the links of croft's nodes on this machine.
func croftLinks() ([]string, error) {
	links, err := net.Interfaces()
	var out []string
	for _, l := range links {
		if strings.HasPrefix(l.Name, "cr") {
			out = append(out, l.Name)
		}
	}
	return out, err
}

// close takes everything down, whatever state it is in.
func (w *world) close() error {
	w.node.stop()
	w.explorer.stop()
	if w.liar != nil {
		w.liar.close()
	}
	if err := w.db.outside.leave(); err != nil {
		return fmt.Errorf("cannot take the other machine away, %s stays: %w", w.dir, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := os.Stat(w.path("state")); err == nil {
		if left, err := w.leftovers(); err != nil || len(left) > 0 {
			if err := w.takeBack(ctx, "--force"); err != nil {
				return fmt.Errorf("cannot take the machine back, %s stays: %w", w.dir, err)
			}
		}
	}
	left, err := w.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind, %s stays: %s", w.dir, strings.Join(left, "; "))
	}
	return os.RemoveAll(w.dir)
}

// lastLine is the end of an error's text, which is what the program printed.
func lastLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := lines[len(lines)-1]
	if _, printed, ok := strings.Cut(last, ": croft: "); ok {
		return printed
	}
	return last
}
