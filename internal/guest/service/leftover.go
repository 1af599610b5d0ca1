package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// The number of a process is used again by another one: its start time (proc(5), stat, field 22) tells them apart.
const startField = 22

// PIDsIn has the runner write down the processes of programs that it starts from now on, in a folder, for EndLeftovers.
func (r *Runner) PIDsIn(folder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pids = folder
}

// EndLeftovers ends the processes that a runner which was killed has left running, and returns the names of their programs. Nothing
// reads what these print any more.
func EndLeftovers(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.pid"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return names, errors.Wrap(err, "cannot end what was left running")
		}
		var pid int
		var start string
		if _, err := fmt.Sscan(string(raw), &pid, &start); err == nil && pid > 1 && startOf(pid) == start {
			if err := end(pid, start); err != nil {
				return names, err
			}
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".pid"))
		}
		if err := os.Remove(file); err != nil {
			return names, errors.Wrap(err, "cannot end what was left running")
		}
	}
	return names, nil
}

// end kills a process and waits until it is gone: its program is about to be started again.
func end(pid int, start string) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errors.Wrapf(err, "cannot end process %d", pid)
	}
	for deadline := time.Now().Add(time.Minute); startOf(pid) == start; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Errorf("cannot end process %d: it is still there after a minute", pid)
		}
	}
	return nil
}

// note writes down the process of a program.
func note(folder, name string, pid int) error {
	text := fmt.Sprintf("%d %s\n", pid, startOf(pid))
	return errors.Wrapf(os.WriteFile(filepath.Join(folder, name+".pid"), []byte(text), 0o600), "cannot write down the process of %s", name)
}

// startOf is the start time of a process; empty for one that isn't there, or has ended and waits for its parent.
func startOf(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The program's name, in parentheses, may have any characters.
	rest := string(raw[strings.LastIndexByte(string(raw), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < startField-2 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[startField-3]
}
