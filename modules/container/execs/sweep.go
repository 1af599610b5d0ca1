package execs

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

	"github.com/croft-edge/croft/modules/container/tasks"
)

// Prefix starts the ID of an exec; the name of the process that runs it follows.
const Prefix = "croft-"

// thisProcess names this process, apart from earlier ones with its ID: "PID-BIRTH".
func thisProcess() string {
	pid := os.Getpid()
	return strconv.Itoa(pid) + "-" + birth(pid)
}

// dead reports whether the process of that name has ended.
func dead(name string) bool {
	number, born, ok := strings.Cut(name, "-")
	pid, err := strconv.Atoi(number)
	return ok && err == nil && birth(pid) != born
}

// newID names an exec by the process that runs it, so that it is known when that
// process has died: "croft-PID-BIRTH-random".
func newID() string {
	var raw [6]byte
	_, _ = rand.Read(raw[:])
	return Prefix + thisProcess() + "-" + hex.EncodeToString(raw[:])
}

// abandoned reports whether an exec is one of croft's whose process has died.
func abandoned(id string) bool {
	rest, ours := strings.CutPrefix(id, Prefix)
	last := strings.LastIndexByte(rest, '-')
	return ours && last > 0 && dead(rest[:last])
}

// birth is the start time of a process in the kernel's ticks; "0" when there is
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

// Sweep ends the abandoned execs of a container. ctx has the user's namespace.
func (r Runner) Sweep(ctx context.Context, c client.Container) {
	t, status, err := tasks.Current(ctx, c)
	if err != nil || t == nil || status.Status != client.Running {
		return
	}
	all, err := t.Pids(ctx)
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
		if p, err := t.LoadProcess(ctx, details.ExecID, nil); err == nil {
			tasks.DropExec(ctx, p)
			r.Log.Info().Str("id", c.ID()).Str("type", "container").Str("step", "sweep").Uint32("pid", one.Pid).Msg("ended an exec whose caller is gone")
		}
	}
}

// SweepFolders removes the folders of FIFOs whose processes have died.
func (r Runner) SweepFolders() {
	all, _ := os.ReadDir(r.Dir) // without, there is nothing to remove
	for _, e := range all {
		if dead(e.Name()) {
			_ = os.RemoveAll(filepath.Join(r.Dir, e.Name()))
		}
	}
}
