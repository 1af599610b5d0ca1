package machine

import (
	"bytes"
	"os"
	"strconv"

	"github.com/pkg/errors"
)

// Process identifies a process of the node, also after its number was given to another one.
type Process struct {
	PID int `json:"pid"`
	// Start is the time of its start in clock ticks since the machine's.
	Start uint64 `json:"start"`
}

// startField is the number of the start time among the fields of /proc/PID/stat after the program's
// name, counted from 0; see proc_pid_stat(5), where it is field 22.
const startField = 19

// Identify returns the identity of a process that runs now.
func Identify(pid int) (Process, error) {
	fields, err := stat(pid)
	if err != nil {
		return Process{}, err
	}
	start, err := strconv.ParseUint(string(fields[startField]), 10, 64)
	return Process{PID: pid, Start: start}, errors.Wrapf(err, "cannot read the start of process %d", pid)
}

// threadsField is the number of threads, field 20.
const threadsField = 17

// Runs reports whether the process is there and any of its threads runs: one whose first thread has ended looks like a zombie
// while others go on.
func (p Process) Runs() bool {
	if p.PID <= 0 {
		return false
	}
	fields, err := stat(p.PID)
	if err != nil || string(fields[startField]) != strconv.FormatUint(p.Start, 10) {
		return false
	}
	threads, err := strconv.Atoi(string(fields[threadsField]))
	return err != nil || string(fields[0]) != "Z" || threads > 1
}

// UID is the ID of the user that the process runs as.
func (p Process) UID() (uint32, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	if err != nil {
		return 0, errors.Wrapf(err, "cannot look at process %d", p.PID)
	}
	for line := range bytes.Lines(raw) {
		fields := bytes.Fields(line)
		if len(fields) < 2 || string(fields[0]) != "Uid:" {
			continue
		}
		uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
		return uint32(uid), errors.Wrapf(err, "cannot read the user of process %d", p.PID)
	}
	return 0, errors.Errorf("cannot read the user of process %d", p.PID)
}

// The fields of user and system time among those after the name; they are fields 14 and 15.
const (
	userTimeField   = 11
	systemTimeField = 12
	// ticksPerSecond is the kernel's USER_HZ, which is 100 on all of Linux' architectures that croft runs on.
	ticksPerSecond = 100
)

// CPU is the processor time that the process has used, in nanoseconds.
func (p Process) CPU() (uint64, error) {
	fields, err := stat(p.PID)
	if err != nil {
		return 0, err
	}
	user, errUser := strconv.ParseUint(string(fields[userTimeField]), 10, 64)
	system, errSystem := strconv.ParseUint(string(fields[systemTimeField]), 10, 64)
	if errUser != nil || errSystem != nil {
		return 0, errors.Errorf("cannot read the processor time of process %d", p.PID)
	}
	const nanosecondsPerTick = 1e9 / ticksPerSecond
	return (user + system) * nanosecondsPerTick, nil
}

// stat is /proc/PID/stat from its third field, the state, on. The name before it may have spaces and brackets.
func stat(pid int) ([][]byte, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, errors.Wrapf(err, "cannot look at process %d", pid)
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= startField {
		return nil, errors.Errorf("cannot look at process %d: its stat has %d fields after the name", pid, len(fields))
	}
	return fields, nil
}
