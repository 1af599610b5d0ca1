package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestAContainerFromReservationToDeletion(t *testing.T) {
	life(t, newBoxes(t))
}

func TestAsProcessesAContainerFromReservationToDeletion(t *testing.T) {
	b := newSplitBoxes(t)
	life(t, b)
	b.leave()
	b.gone(b.net)
	b.split.StopAll()
}

// life is the life cycle of a container with a volume on its network, and of a second one that mounts
// the volume.
func life(t *testing.T, b *boxes) {
	t.Helper()
	before := b.n.Left()
	volume := b.volume()
	if status := b.n.Status().Container; b.n.LogCarrier() != 0 || status.LogCarrier != 0 {
		t.Errorf("there is a log carrier before there is anything to carry: %+v", status)
	}
	mounted := func(c *workload.Container) {
		c.Mounts = []workload.Mount{b.MountByHash(volume, "/data/deep")}
		c.Network.NetworkHash = b.HashOf(b.net)
	}
	r, url := b.run(mounted)
	result := b.ContainerResult(r)
	if result.ID != r.ID || result.IPv4 != "10.1.2.10" || result.IPv6 == "" || !strings.HasPrefix(result.Image, "sha256:") {
		t.Errorf("the result is %+v", result)
	}
	if got := b.shell.MustGet("http://[" + result.IPv6 + "]:8080/"); got == "" {
		t.Error("over IPv6 it answers nothing")
	}
	if got := b.n.Status().Counters; got.Container != 1 || got.Volume != 1 || got.Network != 1 {
		t.Errorf("counted %+v", got)
	}
	info := b.only(r)[0]
	if info.User != b.User.ID() || info.Image != result.Image || info.Restarts != 0 || len(info.Volumes) != 1 || info.Volumes[0] != volume.ID {
		t.Errorf("status %+v", info)
	}
	b.shell.MustDo(http.MethodPut, url+"/write?path=/data/deep/note", "of the first one")
	b.shell.MustDo(http.MethodPut, url+"/write?path=/tmp/note", "not kept")
	b.gone(r)
	second, url := b.run(mounted)
	if got := b.shell.MustGet(url + "/read?path=/data/deep/note"); got != "of the first one" {
		t.Errorf("the next container reads %q", got)
	}
	if got, err := b.Get(b.shell.Path(), url+"/read?path=/tmp/note", time.Minute); err == nil {
		t.Errorf("what a container wrote beside its volumes is in the next one: %q", got)
	}
	b.gone(second)
	b.gone(volume)
	b.nothing(before)
}

// TestManyContainersAtOnce: the engine makes and removes several at a time. They share a network and a
// volume, and don't affect each other.
func TestManyContainersAtOnce(t *testing.T) {
	const many = 8
	b := newBoxes(t, "--cpu-overcommit", "8", "--container-layer", "32MiB")
	before := b.n.Left()
	volume := b.volume()
	all := make([]*workload.Reservation, many)
	for i := range all {
		all[i] = b.Push(b.Container(b.n, func(c *workload.Container) {
			c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")}
			c.Network.IPs = addresses(fmt.Sprintf("10.1.2.%d", 10+i))
		}))
	}
	for i, r := range all {
		if got := b.ContainerResult(r).IPv4; got != fmt.Sprintf("10.1.2.%d", 10+i) {
			t.Errorf("%s has the address %s", r.ID, got)
		}
	}
	b.only(all...)
	for i := range all {
		url := fmt.Sprintf("http://10.1.2.%d:8080", 10+i)
		b.shell.MustGet(url + "/")
		b.shell.MustDo(http.MethodPut, fmt.Sprintf("%s/write?path=/data/%d", url, i), "of one of many")
	}
	for i := range all {
		if got := b.shell.MustGet(fmt.Sprintf("http://10.1.2.%d:8080/read?path=/data/%d", 10+i, (i+1)%many)); got != "of one of many" {
			t.Errorf("another one's file reads %q", got)
		}
	}
	if n := b.n.Status().Counters.Container; n != many {
		t.Errorf("%d containers are counted", n)
	}
	for _, r := range append(all, volume) {
		b.Delete(r)
	}
	for _, r := range append(all, volume) {
		b.Result(r, workload.StateDeleted)
	}
	b.nothing(before)
}

func TestContainerSettings(t *testing.T) {
	b := newBoxes(t)
	image := b.Image("told", imagetest.Server("-say", "of the image").Dir("/home", 0o777).Config(func(c *v1.Config) {
		c.Env = append(c.Env, "KEPT=by the image", "CHANGED=by the image")
		c.User, c.WorkingDir = "1000:1001", "/home"
	}))
	r, url := b.run(func(c *workload.Container) {
		c.FList = image
		c.Env = map[string]string{"CHANGED": "by the user", "LINES": "one\ntwo", "EMPTY": ""}
		c.SecretEnv = map[string]string{"TOKEN": b.SealEnv(b.n, b.User, "TOKEN", "of nobody else")}
	})
	env := b.shell.MustGet(url + "/env")
	mentions(t, "the environment", env, "KEPT=by the image\n", "CHANGED=by the user\n", "LINES=one\ntwo\n", "EMPTY=\n", "TOKEN=of nobody else\n")
	mentions(t, "who it is", b.shell.MustGet(url+"/id"), "uid=1000 gid=1001", "pid=1 ", "dir=/home")
	mentions(t, "its servers of names", b.shell.MustGet(url+"/read?path=/etc/resolv.conf"), "nameserver 10.1.2.1")
	if out := b.n.Croftd("status", "-o", "json"); strings.Contains(out, "of nobody else") {
		t.Error("croftd status shows a secret")
	}
	if strings.Contains(b.n.Output(), "of nobody else") {
		t.Error("the log shows a secret")
	}
	b.gone(r)
	r, url = b.run(func(c *workload.Container) {
		c.FList = image
		c.Entrypoint = `/bin/server -say "two words" -listen ':'8080`
	})
	b.exit(url, 3)
	b.Until(back, "its last lines are told", func() bool {
		info, ok := b.n.ContainerStatus(r)
		return ok && strings.Contains(strings.Join(info.LastLog, "\n"), "two words")
	})
}

func TestAContainerThatEndsIsStartedAgain(t *testing.T) {
	b := newBoxes(t)
	r, url := b.run(nil)
	for n := range 3 {
		b.shell.MustDo(http.MethodPost, url+"/say?to=stderr", "its last words\n")
		b.exit(url, 7)
		b.Until(nodetest.Soon, "it was started again", func() bool {
			info, ok := b.n.ContainerStatus(r)
			return ok && info.Restarts == uint64(n+1) && info.State == node.ContainerRunning
		})
		b.shell.MustGet(url + "/")
	}
	if info := b.only(r)[0]; info.ExitCode != 7 || info.Ended == 0 {
		t.Errorf("it is told as %+v", info)
	}
	// A container that crashes: its status has details while it waits.
	crash := b.Push(b.Container(b.n, func(c *workload.Container) {
		c.Entrypoint = "/bin/server -say 'I go' -listen nowhere"
		c.Network.IPs = addresses("10.1.2.11")
	}))
	b.Until(nodetest.Soon, "it is told how it ends", func() bool {
		info, ok := b.n.ContainerStatus(crash)
		return ok && info.Restarts > 1 && info.ExitCode == 1 && strings.Contains(strings.Join(info.LastLog, "\n"), "I go")
	})
	mentions(t, "croftd status", b.n.Croftd("status"), "the last lines of "+crash.ID, "I go", "address nowhere")
	b.gone(crash)
	b.gone(r)
}

func TestAnImageThatCannotStartFails(t *testing.T) {
	b := newBoxes(t)
	before := b.n.Left()
	r := b.Push(b.Container(b.n, func(c *workload.Container) { c.Entrypoint = "/bin/not-there" }))
	mentions(t, "the cause", b.Result(r, workload.StateError).Error, "/bin/not-there")
	b.nothing(before)
}

func TestAContainerThatExpiresLeavesNothing(t *testing.T) {
	b := newBoxes(t)
	before := b.n.Left()
	r := b.Push(b.lasting(b.Container(b.n, nil), time.Minute)) // a loaded machine takes long to start it
	b.Result(r, workload.StateOK)
	b.Result(r, workload.StateExpired)
	b.nothing(before)
}

// TestNothingIsTakenFromUnderAContainer: its volume and its network are removed only after it.
func TestNothingIsTakenFromUnderAContainer(t *testing.T) {
	b := newBoxes(t)
	volume := b.volume()
	r, url := b.run(func(c *workload.Container) { c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")} })
	b.shell.MustDo(http.MethodPut, url+"/write?path=/data/note", "still here")
	b.Delete(volume)
	b.Delete(b.net)
	b.Until(nodetest.Soon, "both wait, and say so", func() bool {
		waiting := 0
		for _, x := range b.n.Status().Workloads {
			if (x.ID == volume.ID || x.ID == b.net.ID) && x.Phase == "blocked" && x.Attempts > 0 && strings.Contains(x.Error, "in use by container/"+r.ID) {
				waiting++
			}
		}
		return waiting == 2
	})
	if got := b.shell.MustGet(url + "/read?path=/data/note"); got != "still here" {
		t.Errorf("it reads %q", got)
	}
	b.leave()
	b.gone(r)
	b.Result(volume, workload.StateDeleted)
	b.Result(b.net, workload.StateDeleted)
}
