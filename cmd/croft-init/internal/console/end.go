package console

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How a session ends: SIGHUP, a grace period, then SIGKILL; glance is the polling interval.
const (
	grace  = 5 * time.Second
	force  = 5 * time.Second
	glance = 50 * time.Millisecond
)

// Close ends the terminal and all processes of its session.
func (c *Console) Close() {
	c.once.Do(func() {
		c.master.Close()
		tell(c.shell.PID, syscall.SIGHUP)
		tell(c.shell.PID, syscall.SIGCONT) // a stopped process wouldn't receive SIGHUP
		if !gone(c.shell.PID, grace, nil) {
			gone(c.shell.PID, force, func() { tell(c.shell.PID, syscall.SIGKILL) })
		}
	})
}

// gone waits until no process of a session is left, and reports whether that was in time. It calls each
// before every check.
func gone(session int, patience time.Duration, each func()) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		if each != nil {
			each()
		}
		if len(members(session)) == 0 {
			return true
		}
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
}

// tell signals all processes of a session.
func tell(session int, s syscall.Signal) {
	for _, pid := range members(session) {
		_ = syscall.Kill(pid, s) // the process may have just ended
	}
}

// members are the live processes of a session. Without /proc it is the process group of the session's
// leader.
func members(session int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil || len(entries) == 0 {
		if syscall.Kill(-session, 0) == nil {
			return []int{-session}
		}
		return nil
	}
	var out []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		if state, of := parseStat(string(raw)); of == session && state != "Z" && state != "X" {
			out = append(out, pid)
		}
	}
	return out
}

// parseStat returns the state and the session of a process. The name, in brackets, may contain any
// character.
func parseStat(line string) (state string, session int) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return "", 0
	}
	fields := strings.Fields(line[end+1:]) // state, parent, group, session
	if len(fields) < 4 {
		return "", 0
	}
	session, err := strconv.Atoi(fields[3])
	if err != nil {
		return "", 0
	}
	return fields[0], session
}
