package main_test

import (
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestNothingDisturbsAContainer: whichever part of the node is killed or changed, a client in the
// network doesn't notice, and no container is started twice.
func TestNothingDisturbsAContainer(t *testing.T) {
	b := newBoxes(t)
	volume := b.volume()
	r, url := b.run(func(c *workload.Container) {
		c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")}
		c.Entrypoint = "/bin/server -count 5ms"
	})
	was := b.only(r)[0]
	loop := b.shell.StartLoop(url + "/")
	for _, what := range []struct {
		name string
		do   func()
	}{
		{"the agent is killed", func() { b.n.Kill(); b.n.Start() }},
		{"containerd is killed", b.n.KillContainerd},
		{"both are killed", func() { b.n.Kill(); b.n.KillContainerd(); b.n.Start() }},
		{"the log carrier is killed", b.n.KillLogCarrier},
		{"all three are killed", func() { b.n.Kill(); b.n.KillLogCarrier(); b.n.KillContainerd(); b.n.Start() }},
		{"the agent is another program", func() { b.n.Stop(); b.Croftd = b.copied(); b.n.Start() }},
	} {
		asked := loop.Asked()
		b.shell.MustDo(http.MethodPost, url+"/say?to=stdout", "before "+what.name+"\n")
		what.do()
		b.n.WaitReady()
		b.Until(nodetest.Soon, what.name+": the container is known to run", func() bool {
			info, ok := b.n.ContainerStatus(r)
			return ok && info.State == node.ContainerRunning
		})
		b.shell.MustDo(http.MethodPost, url+"/say?to=stdout", "after "+what.name+"\n")
		b.Until(nodetest.Soon, "the client goes on", func() bool { return loop.Asked() > asked+3 })
		now := b.only(r)[0]
		if now.PID != was.PID || now.Restarts != 0 || now.Namespace != was.Namespace {
			t.Errorf("%s: it is %+v, was %+v", what.name, now, was)
		}
	}
	if asked, failed := loop.Stop(); len(failed) > 0 || asked < 20 {
		t.Errorf("of %d requests failed: %v", asked, failed)
	}
	b.shell.MustDo(http.MethodPost, url+"/say?to=stdout", "the end\n")
	b.counted(r, "the end")
	b.gone(r)
	b.gone(volume)
}

// counted fails unless all numbered lines that a container wrote before the line last are in its log
// once, in order.
func (b *boxes) counted(r *workload.Reservation, last string) {
	b.Helper()
	next, said := 1, map[string]int{}
	b.Until(nodetest.Soon, "its last words are in the log", func() bool {
		next, said = 1, map[string]int{}
		for _, line := range b.n.LogLines(r) {
			said[line.Text]++
			if number, ok := strings.CutPrefix(line.Text, "line "); ok {
				if number != strconv.Itoa(next) {
					b.Fatalf("%q follows line %d", line.Text, next-1)
				}
				next++
			}
		}
		return said[last] > 0
	})
	for text, times := range said {
		if times > 1 {
			b.Errorf("%q is in the log %d times", text, times)
		}
	}
	if next < 1000 {
		b.Errorf("only %d lines are in the log", next-1)
	}
}

// copied is a copy of the program under test at another path.
func (b *boxes) copied() string {
	b.Helper()
	path := b.Path("croftd-next")
	if out, err := exec.Command("cp", b.Croftd, path).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestAsProcessesNothingDisturbsAContainer(t *testing.T) {
	b := newSplitBoxes(t)
	r, url := b.run(nil)
	was := b.only(r)[0]
	loop := b.shell.StartLoop(url + "/")
	for _, part := range []string{"container", "network", "storage", "provision"} {
		b.split.Parts[part].Kill()
		asked := loop.Asked()
		b.Until(nodetest.Soon, "the client goes on without "+part, func() bool { return loop.Asked() > asked+3 })
		b.split.StartPart(part)
		b.n.WaitReady()
	}
	if asked, failed := loop.Stop(); len(failed) > 0 {
		t.Errorf("of %d requests failed: %v", asked, failed)
	}
	if now := b.only(r)[0]; now.PID != was.PID || now.Restarts != 0 {
		t.Errorf("it is %+v, was %+v", now, was)
	}
	b.gone(r)
	b.leave()
	b.gone(b.net)
	b.split.StopAll()
}

// TestAContainerIsBack whatever is done to it outside the node.
func TestAContainerIsBack(t *testing.T) {
	b := newBoxes(t)
	volume := b.volume()
	r, url := b.run(func(c *workload.Container) { c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")} })
	b.shell.MustDo(http.MethodPut, url+"/write?path=/data/note", "kept")
	for _, what := range []struct {
		name string
		do   func()
	}{
		{"its processes are killed", func() { b.n.KillTask(r) }},
		{"it is deleted", func() { b.n.DeleteContainer(r) }},
		{"its network namespace is unmounted", func() { b.n.Unpin(r) }},
		{"its link is removed", func() { b.n.Unplug(r) }},
	} {
		what.do()
		done := time.Now()
		b.Until(back, what.name+": it answers, with its volume", func() bool {
			got, err := b.Get(b.shell.Path(), url+"/read?path=/data/note", 5*time.Second)
			return err == nil && got == "kept"
		})
		t.Logf("%s: back after %s", what.name, time.Since(done).Round(time.Millisecond))
		b.Until(back, what.name+": the node says that it runs", func() bool {
			info, ok := b.n.ContainerStatus(r)
			return ok && info.State == node.ContainerRunning && info.Drift == ""
		})
		b.only(r)
	}
	b.gone(r)
	b.gone(volume)
}

// TestARebootedNodeBringsItsContainersBack without its explorer.
func TestARebootedNodeBringsItsContainersBack(t *testing.T) {
	b := newBoxes(t)
	volume := b.volume()
	first, url := b.run(func(c *workload.Container) { c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")} })
	second, _ := b.run(func(c *workload.Container) { c.Network.IPs = addresses("10.1.2.11") })
	b.shell.MustDo(http.MethodPut, url+"/write?path=/data/note", "kept")
	b.KillExplorer()
	b.n.Kill()
	b.n.Reboot()
	b.n.Start()
	b.n.WaitReady()
	for _, r := range []*workload.Reservation{first, second} {
		b.n.WaitRunning(r)
	}
	shell := b.n.Join(node.MemberSpec{Network: nodetest.NetworkID(b.User, "net1"), Member: shellID})
	if got := shell.MustGet(url + "/read?path=/data/note"); got != "kept" {
		t.Errorf("after a reboot it reads %q", got)
	}
	shell.MustGet("http://10.1.2.11:8080/")
	b.only(first, second)
	for _, x := range b.n.Status().Workloads {
		if x.Phase != "deployed" || x.Attempts > 1 {
			t.Errorf("%s %s is %s after %d attempts: %s", x.Type, x.ID, x.Phase, x.Attempts, x.Error)
		}
	}
}
