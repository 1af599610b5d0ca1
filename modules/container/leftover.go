package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/typeurl/v2"
)

// execPrefix starts the ID of an exec; who runs it follows.
const execPrefix = "croft-"

// me names this process, apart from those that had its ID before: "PID-BIRTH".
func me() string {
	pid := os.Getpid()
	return strconv.Itoa(pid) + "-" + birth(pid)
}

// dead reports whether the process that is named so has ended.
func dead(name string) bool {
	number, born, ok := strings.Cut(name, "-")
	pid, err := strconv.Atoi(number)
	return ok && err == nil && birth(pid) != born
}

// execID names an exec by the process that is beside it, so that one whose
// process has died is known: "croft-PID-BIRTH-random".
func execID() string {
	var raw [6]byte
	_, _ = rand.Read(raw[:])
	return execPrefix + me() + "-" + hex.EncodeToString(raw[:])
}

// abandoned reports whether an exec is one of croft's whose process has died.
func abandoned(id string) bool {
	rest, ours := strings.CutPrefix(id, execPrefix)
	last := strings.LastIndexByte(rest, '-')
	return ours && last > 0 && dead(rest[:last])
}

// birth is when a process was started, in the kernel's ticks; "0" when there is
// none.
func birth(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "0"
	}
	// The name is in parentheses and may hold anything; the birth is field 22.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 20 {
		return "0"
	}
	return fields[19]
}

// sweepExecs ends the execs of a container whose processes have died.
func (m *Module) sweepExecs(ctx context.Context, user, id string) {
	in, found, err := load(ctx, m.daemon, user, id)
	if err != nil {
		return
	}
	t, status, err := task(in, found)
	if err != nil || t == nil || status.Status != client.Running {
		return
	}
	all, err := t.Pids(in)
	if err != nil {
		return
	}
	for _, one := range all {
		if one.Info == nil {
			continue
		}
		decoded, err := typeurl.UnmarshalAny(one.Info)
		details, ok := decoded.(*runcoptions.ProcessDetails)
		if err != nil || !ok || !abandoned(details.ExecID) {
			continue
		}
		if p, err := t.LoadProcess(in, details.ExecID, nil); err == nil {
			remove(in, p)
			m.cfg.Log.Info().Str("id", id).Str("type", "container").Uint32("pid", one.Pid).Msg("an exec that nobody is beside any more is ended")
		}
	}
}

// sweepExecFolders removes the folders of FIFOs whose processes have died.
func (m *Module) sweepExecFolders() {
	all, _ := os.ReadDir(m.cfg.execs()) // without, there is nothing to remove
	for _, e := range all {
		if dead(e.Name()) {
			_ = os.RemoveAll(filepath.Join(m.cfg.execs(), e.Name()))
		}
	}
}
