package groups

import (
	"fmt"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// killedCode is the exit code of a process that SIGKILL has ended.
const killedCode = 128 + 9

// OutOfMemory says what the kernel has killed of a container since its last start; empty for
// nothing. The container's control group, which lasts until its next start, has counted it. code is
// the exit code of its first process.
func (g Groups) OutOfMemory(id string, code uint64) string {
	group, err := cgroup.At(g.Path(id))
	if err != nil {
		return ""
	}
	return oomText(group.Events(), group.Limits(cgroup.Limits{Memory: 1}).Memory, code)
}

func oomText(e cgroup.Events, limit, code uint64) string {
	if e.OOMKills == 0 {
		return ""
	}
	what := "it"
	if code != killedCode {
		what = fmt.Sprintf("%d of its processes", e.OOMKills)
	}
	out := fmt.Sprintf("out of memory: the kernel killed %s; its limit is %s", what, mebibytes(limit))
	if !e.AtLimit {
		out += ", which it hadn't reached: all containers together, or the node, had none left"
	}
	return out
}

func mebibytes(n uint64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
