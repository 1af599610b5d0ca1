package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// containerd is a node's --containerd-binary, a script whose content changes.
type containerd struct {
	t    *testing.T
	path string
}

// newContainerd makes one that works.
func newContainerd(t *testing.T) *containerd {
	t.Helper()
	c := &containerd{t, filepath.Join(t.TempDir(), "containerd")}
	c.works()
	return c
}

func (c *containerd) works() {
	c.t.Helper()
	program, err := exec.LookPath("containerd")
	if err != nil {
		c.t.Fatal(err)
	}
	c.is("exec " + program + ` "$@"`)
}

// is makes it a script. A new file: the old one may be executed at this moment.
func (c *containerd) is(script string) {
	c.t.Helper()
	err := os.WriteFile(c.path+".new", []byte("#!/bin/sh\n"+script+"\n"), 0o755) //nolint:gosec // it is a program
	if err == nil {
		err = os.Rename(c.path+".new", c.path)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// phase waits until the container module is in a phase for a reason, and says something.
func (b *boxes) phase(want, why, says string) {
	b.Helper()
	b.Until(nodetest.Soon, "the container module is "+want+" "+why+" "+says, func() bool {
		m, reason := b.module(node.ContainerModule)
		return m.Phase == want && reason == why && strings.Contains(m.Error, says)
	})
}

// withoutContainerd has a node begin with a containerd that is too old, then broken, then away, while other modules work; then with a good one. Start
// starts what was stopped.
func withoutContainerd(t *testing.T, b *boxes, c *containerd, start func()) {
	t.Helper()
	c.is("echo containerd github.com/containerd/containerd 1.4.13~ds1 1.4.13~ds1-1+deb11u4")
	start()
	const unmet = `containerd 1.6 or newer is needed, this is "1.4.13~ds1"`
	b.phase("Pending", "ConstraintUnmet", unmet)
	b.Until(nodetest.Soon, "that is an event", func() bool {
		all := events(b.World, b.n)
		return strings.Contains(all, "ConstraintUnmet") && strings.Contains(all, unmet)
	})
	waits := b.Push(b.Container(b.n, nil))
	b.volume()

	c.is("[ \"$1\" = --version ] && echo containerd github.com/containerd/containerd 1.6.20 1 || exit 1")
	b.phase("Failed", "LoadFailed", "it ended (exit status 1)")

	if err := os.Remove(c.path); err != nil {
		t.Fatal(err)
	}
	b.phase("Failed", "LoadFailed", "no such file")
	volume := b.volume()

	c.works()
	b.phase("Running", "Answers", "")
	b.Result(waits, workload.StateOK)
	b.only(waits)
	b.gone(waits)
	b.gone(volume)
}

func TestANodeWithoutAUsableContainerd(t *testing.T) {
	c := newContainerd(t)
	b := newBoxes(t, "--containerd-binary", c.path)
	b.n.Stop()
	b.n.Croftd("container", "down")
	withoutContainerd(t, b, c, func() { b.n.Start() })
}

func TestAsProcessesANodeWithoutAUsableContainerd(t *testing.T) {
	c := newContainerd(t)
	b := newSplitBoxes(t, "--containerd-binary", c.path)
	b.split.Parts["container"].Stop()
	b.n.Croftd("container", "down")
	withoutContainerd(t, b, c, func() { b.split.StartPart("container") })
	b.leave()
	b.gone(b.net)
	b.split.StopAll()
}
