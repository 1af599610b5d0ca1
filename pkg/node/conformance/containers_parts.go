package conformance

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

func containersTwice(t *testing.T, s ContainersSubject) {
	spec, info := s.run(t, "1-1", s.Serve)
	again, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if again.PID != info.PID || again.State != node.ContainerRunning {
		t.Errorf("created twice: %+v, was %+v", again, info)
	}
	again, err = s.Client.Start(t.Context(), "1-1")
	expect.NoError(t, err)
	if again.PID != info.PID || again.Restarts != 0 {
		t.Errorf("started twice: %+v, was %+v", again, info)
	}
	if all, err := s.Client.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("containers %+v (%v), want one", all, err)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	expect.Kind(t, s.Client.Delete(t.Context(), "1-1"), node.NotExist)
}

func containersRemoveNothing(t *testing.T, s ContainersSubject) {
	expect.Kind(t, s.Client.Delete(t.Context(), "1-1"), node.NotExist)
	_, err := s.Client.Start(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.Inspect(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.Stats(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.Logs(t.Context(), "1-1", 10)
	expect.Kind(t, err, node.NotExist)
	expect.Kind(t, s.Images.Release(t.Context(), "1-1"), node.NotExist)
	_, err = s.Images.Inspect(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
}

func containersRestart(t *testing.T, s ContainersSubject) {
	_, running := s.run(t, "1-1", s.Serve)
	created := s.spec(t, "1-2", s.Serve)
	_, err := s.Client.Create(t.Context(), created)
	expect.NoError(t, err)
	s.Client, s.Images = s.Restart(t)
	all, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(all) != 2 || all[0].ID != "1-1" || all[0].PID != running.PID || all[0].Restarts != 0 || all[0].State != node.ContainerRunning {
		t.Fatalf("after a restart: %+v, was %+v", all, running)
	}
	if all[1].State != node.ContainerCreated {
		t.Errorf("one that wasn't started is %+v", all[1])
	}
	if image, err := s.Images.Inspect(t.Context(), "1-1"); err != nil || !image.Ready {
		t.Errorf("after a restart its image is %+v (%v)", image, err)
	}
	_, err = s.Client.Start(t.Context(), "1-2")
	expect.NoError(t, err)
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	expect.NoError(t, s.Client.Delete(t.Context(), "1-2"))
	expect.Kind(t, s.Client.Delete(t.Context(), "1-1"), node.NotExist)
}

func containersChange(t *testing.T, s ContainersSubject) {
	spec, before := s.run(t, "1-1", s.Serve)
	spec.Hostname = "another"
	made, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if made.State != node.ContainerCreated || made.PID != 0 {
		t.Errorf("changed: %+v", made)
	}
	after, err := s.Client.Start(t.Context(), "1-1")
	expect.NoError(t, err)
	if after.PID == before.PID || after.State != node.ContainerRunning {
		t.Errorf("started again: %+v, was %+v", after, before)
	}
	spec.User = "somebodyElse"
	_, err = s.Client.Create(t.Context(), spec)
	if kind := node.KindOf(err); kind != node.Exist && kind != node.Refused && kind != node.NotExist {
		t.Errorf("another user's of the same ID: %v, want it refused", err)
	}
	if now, err := s.Client.Inspect(t.Context(), "1-1"); err != nil || now.PID != after.PID {
		t.Errorf("then it is %+v (%v)", now, err)
	}
}

func containersEnd(t *testing.T, s ContainersSubject) {
	_, first := s.run(t, "1-1", s.Fail)
	info := s.until(t, "1-1", "started again twice", func(i node.ContainerInfo) bool { return i.Restarts >= 2 && len(i.LastLog) > 0 })
	if info.ExitCode == 0 || info.Ended == 0 || info.Namespace != first.Namespace {
		t.Errorf("it ended: %+v", info)
	}
	said := false
	for _, line := range info.LastLog {
		said = said || line == "bye"
	}
	if !said || len(info.LastLog) > 20 {
		t.Errorf("its last lines are %q", info.LastLog)
	}
	s.until(t, "1-1", "waiting", func(i node.ContainerInfo) bool {
		return i.State == node.ContainerWaiting && i.Next > i.Ended && i.PID == 0
	})
	if all, err := s.Client.List(t.Context()); err != nil || len(all) != 1 || len(all[0].LastLog) != 0 || all[0].Drift != "" {
		t.Errorf("containers %+v (%v)", all, err)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	_, err := s.Client.Inspect(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
}

func containersBadSpecs(t *testing.T, s ContainersSubject) {
	good := s.spec(t, "1-1", s.Serve)
	for what, spoil := range map[string]func(*node.ContainerSpec){
		"User":     func(c *node.ContainerSpec) { c.User = "../x" },
		"CPU":      func(c *node.ContainerSpec) { c.CPU = 0 },
		"Memory":   func(c *node.ContainerSpec) { c.Memory = 0 },
		"Layer":    func(c *node.ContainerSpec) { c.Layer = "relative" },
		"Hostname": func(c *node.ContainerSpec) { c.Hostname = "a\nb" },
		"DNS":      func(c *node.ContainerSpec) { c.DNS = []string{"10.1.2.1\nnameserver 1.1.1.1"} },
		"Env":      func(c *node.ContainerSpec) { c.Env = node.Env{"A\x00": "b"} },
		"target": func(c *node.ContainerSpec) {
			c.Mounts = []node.MountSpec{{Volume: "7-1", Source: s.Volume(t), Target: ".."}}
		},
		"source": func(c *node.ContainerSpec) { c.Mounts = []node.MountSpec{{Volume: "7-1", Source: "..", Target: "/x"}} },
	} {
		spec := good
		spoil(&spec)
		_, err := s.Client.Create(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, what)
	}
	for _, most := range []func(*node.ContainerSpec){
		func(c *node.ContainerSpec) { c.CPU = expect.Most },
		func(c *node.ContainerSpec) { c.Memory = expect.Most },
	} {
		spec := good
		most(&spec)
		_, err := s.Client.Create(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
	}
	for _, id := range expect.BadNames() {
		spec := good
		spec.ID = id
		_, err := s.Client.Create(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
		expect.Kind(t, s.Client.Delete(t.Context(), id), node.Invalid)
		_, err = s.Client.Start(t.Context(), id)
		expect.Kind(t, err, node.Invalid)
	}
	spec := good
	spec.Entrypoint = []string{"/no/such/program"}
	_, err := s.Client.Create(t.Context(), spec)
	if err == nil {
		_, err = s.Client.Start(t.Context(), "1-1")
	}
	expect.Kind(t, err, node.Invalid)
	expect.Text(t, err, "/no/such/program")
	if err := s.Client.Delete(t.Context(), "1-1"); err != nil {
		expect.Kind(t, err, node.NotExist)
	}
	without := good
	without.ID = "1-2"
	_, err = s.Client.Create(t.Context(), without)
	expect.Kind(t, err, node.NotExist) // it has no image
	if all, err := s.Client.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("containers %+v (%v), want none", all, err)
	}
}

func containersMeasure(t *testing.T, s ContainersSubject) {
	s.run(t, "1-1", s.Serve)
	s.says(t, "1-1", "hello")
	if lines, err := s.Client.Logs(t.Context(), "1-1", 0); err != nil || len(lines) != 0 {
		t.Errorf("no lines are %+v (%v)", lines, err)
	}
	use, err := s.Client.Stats(t.Context(), "1-1")
	expect.NoError(t, err)
	if use.ID != "1-1" || use.At == 0 || use.CPU == 0 || use.Memory == 0 || use.MemoryLimit != 128*expect.MiB || use.PIDs == 0 {
		t.Errorf("it uses %+v", use)
	}
	_, err = s.Client.Create(t.Context(), s.spec(t, "1-2", s.Serve))
	expect.NoError(t, err)
	_, err = s.Client.Stats(t.Context(), "1-2")
	expect.Kind(t, err, node.Busy)
}

func containersStatus(t *testing.T, s ContainersSubject) {
	status, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	if status.Containerd == "" || status.Version == "" || status.Error != "" || status.Cgroup != 1 && status.Cgroup != 2 || status.Containers != 0 {
		t.Errorf("status %+v", status)
	}
	s.run(t, "1-1", s.Serve)
	if status, err = s.Client.Status(t.Context()); err != nil || status.Containers != 1 || status.LogCarrier == 0 || status.LogCarrierMemory == 0 {
		t.Errorf("status with a container %+v (%v)", status, err)
	}
}

// containersMadeAgain tests that a container made again after its removal, of the same
// image, continues its log.
func containersMadeAgain(t *testing.T, s ContainersSubject) {
	heard := func() (n int) {
		lines, err := s.Client.Logs(t.Context(), "1-1", 100)
		expect.NoError(t, err)
		for _, l := range lines {
			if l.Text == "hello" {
				n++
			}
		}
		return n
	}
	spec, _ := s.run(t, "1-1", s.Serve)
	s.says(t, "1-1", "hello")
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	_, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if n := heard(); n != 1 {
		t.Errorf("of what it said before, %d lines are there", n)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	expect.NoError(t, s.Images.Release(t.Context(), "1-1"))
	s.pull(t, "1-1")
	_, err = s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if n := heard(); n != 0 {
		t.Errorf("of what it said before its image was let go, %d lines are there", n)
	}
}
