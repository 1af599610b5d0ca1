//go:build boot

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// parts are the programs that init keeps, with their first arguments.
func parts() [][]string {
	out := [][]string{{"redis-server"}, {"containerd"}, {"chronyd"}}
	for _, module := range []string{"identity", "storage", "monitor", "debug", "network", "container", "zdb", "vm", "provision"} {
		out = append(out, []string{"croftd", module})
	}
	return out
}

// killParts kills each part in turn: it is back, and no workload has noticed.
func (st *story) killParts() {
	st.Helper()
	runs := st.running()
	for _, part := range parts() {
		name := strings.Join(part, " ")
		was, ok := st.part(part)
		if !ok {
			st.Errorf("%s doesn't run as one process: %+v", name, st.n.hand.find(part[0], part[1:]...))
			continue
		}
		began := time.Now()
		st.n.hand.kill(was)
		st.until(name+" is back", func() error {
			if is, ok := st.part(part); !ok || is.is() == was.is() {
				return fmt.Errorf("it is %+v", is)
			}
			if is, ready := st.n.hand.ready(); !ready {
				return fmt.Errorf("the node isn't ready: %s", is)
			}
			return nil
		})
		st.Logf("%s is back and the node ready %s after it was killed", name, since(began))
		if _, err := st.p.ask("GET", "/", ""); err != nil {
			st.Errorf("after %s was killed the container doesn't answer: %v", name, err)
		}
	}
	if now := st.running(); now != runs {
		st.Errorf("the workloads were %s, they are %s", runs, now)
	}
	st.n.settled(st.counts)
	st.works()
	st.reaps()
}

// reaps holds that process 1 reaps a process whose parent has ended, and that nothing else is left unreaped.
func (st *story) reaps() {
	st.Helper()
	orphan, err := st.n.hand.tryRun("sh", "-c", "sleep 2 >/dev/null 2>&1 & echo $!")
	st.must(err)
	st.until("all processes that have ended are reaped", func() error {
		all, err := st.n.hand.tryRun("sh", "-c", "cat /proc/[0-9]*/stat")
		if err != nil && all.Output == "" {
			return err
		}
		for line := range strings.Lines(all.Output) {
			if strings.Contains(line, ") Z ") || strings.HasPrefix(line, strings.TrimSpace(orphan.Output)+" ") {
				return fmt.Errorf("this isn't reaped: %s", line)
			}
		}
		return nil
	})
}

// part is the process of a part. Of redis the arguments are a title that it gives itself.
func (st *story) part(part []string) (process, bool) {
	if p, ok := st.n.hand.the(part[0], part[1:]...); ok {
		return p, true
	}
	found := slices.DeleteFunc(st.n.hand.processes(), func(p process) bool {
		return len(part) > 1 || p.Name != part[0] && !strings.HasPrefix(p.Name, part[0])
	})
	if len(found) != 1 {
		return process{}, false
	}
	return found[0], true
}

// works holds that the node still takes reservations.
func (st *story) works() {
	st.Helper()
	r := st.Push(st.volume(st.n, lasting))
	st.Result(r, workload.StateOK)
	st.Delete(r)
	st.Result(r, workload.StateDeleted)
}

// damage damages a record while the machine is off: the node sets it aside, and the rest runs.
func (st *story) damage() {
	st.Helper()
	victim := st.Push(st.volume(st.n, lasting))
	st.Result(victim, workload.StateOK)
	st.n.hand.sync()
	st.n.m.Cut(st.random)
	st.StopExplorer()
	record := st.record(victim.ID, func(path string) {
		raw, err := os.ReadFile(path)
		st.must(err)
		copy(raw[len(raw)/2:], "damaged")
		st.must(os.WriteFile(path, raw, 0o600))
	})
	st.Logf("the record %s is damaged", record)
	st.n.m.PowerOn()
	st.p.answers()
	st.n.agent()
	st.p.noted("before the power cut")
	is, err := st.n.hand.status()
	st.must(err)
	if !slices.ContainsFunc(is.Store.Quarantined, func(name string) bool { return strings.Contains(name, victim.ID) }) {
		st.Errorf("in quarantine is %q, want record %s", is.Store.Quarantined, victim.ID)
	}
	st.StartExplorer()
	for _, r := range st.p.all() {
		st.Result(r, workload.StateOK)
	}
	st.works()
}

// record finds a reservation's record on the node's disks, which are off, and has change change it.
func (st *story) record(id string, change func(path string)) string {
	st.Helper()
	st.n.m.Sync()
	at := st.Path("pool")
	st.must(os.MkdirAll(at, 0o755))
	for _, disk := range st.n.disks {
		if out, err := exec.CommandContext(st.Context(), "mount", "-t", "btrfs", "-o", "loop,subvolid=5", disk, at).CombinedOutput(); err != nil {
			st.Logf("the disk %s can't be mounted: %v: %s", disk, err, out)
			continue
		}
		found := recordBelow(at, id)
		if found != "" {
			change(found)
		}
		if out, err := exec.CommandContext(st.Context(), "umount", at).CombinedOutput(); err != nil {
			st.Fatalf("cannot unmount a node's disk: %v: %s", err, out)
		}
		if found != "" {
			return strings.TrimPrefix(found, at)
		}
	}
	st.Fatalf("no disk has a record of reservation %s", id)
	return ""
}

// recordBelow is the file of a record, beside which the store's folder meta is; empty for none.
func recordBelow(folder, id string) (found string) {
	_ = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || found != "" || entry.IsDir() || entry.Name() != id {
			return nil
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "meta", "birth")); err == nil {
			found = path
		}
		return nil
	})
	return found
}
