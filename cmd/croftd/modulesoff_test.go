package main_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// A module that the operator switches off refuses new workloads, closes once the last of its own has left, stays closed over a restart of the node,
// and is opened again; other workloads and modules notice nothing, and the node is ready all the time.
func TestAModuleIsSwitchedOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "croftd.yaml")
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("")
	z := newZDBs(t, "--config", file)
	mine, at := z.made(password("s3cr3t"))
	volume := z.Reserve(z.n, time.Hour)
	z.Result(volume, workload.StateOK)
	conn := z.inside(at, "s3cr3t")
	z.answers(conn, "key", "SET", "key", "kept")
	reload := func(text, says string) {
		t.Helper()
		set(text)
		mentions(t, "the reload", z.n.Croftd("reload"), says)
	}
	phase := z.phase
	phase("Running", "Answers")

	reload("modules-off: zdb\n", "changed: modules-off")
	phase("Running", "WaitsForWorkloads")
	mentions(t, "a new namespace", z.Result(z.Push(z.ZDB(z.n, nil)), workload.StateError).Error, "the node's operator has switched that off")
	z.answers(conn, "kept", "GET", "key")
	_ = conn.Close()
	// A restart begins with the module closed: it is opened for the namespace that is there.
	z.n.Process.Kill()
	z.n.Start()
	z.n.WaitReady()
	phase("Running", "WaitsForWorkloads")
	z.deployed(mine, volume)
	z.gone(mine)
	phase("Disabled", "SwitchedOff")
	if _, there := z.n.OwnContainer(at.Container); there {
		t.Error("its zdb is still there")
	}

	z.n.Process.Kill()
	z.n.Start()
	z.n.WaitReady()
	phase("Disabled", "SwitchedOff")
	z.deployed(volume)

	reload("modules-off: []\n", "changed: modules-off")
	phase("Running", "Answers")
	_, again := z.made(password("other"))
	z.answers(z.inside(again, "other"), "key", "SET", "key", "value")
	if _, err := z.n.TryCroftd("config", "check", write(t, "modules-off: [zdb, storage]\n")); err == nil {
		t.Error("the storage module can be switched off")
	}
}

// TestAsProcessesAModuleIsSwitchedOff: the same where the module is a process of its own, which the operator ends once the module is switched off.
func TestAsProcessesAModuleIsSwitchedOff(t *testing.T) {
	file := write(t, "")
	z := newSplitZDBs(t, "--config", file)
	mine, at := z.made(password("s3cr3t"))
	z.answers(z.inside(at, "s3cr3t"), "key", "SET", "key", "kept")
	phase := z.phase
	phase("Running", "Answers")
	if err := os.WriteFile(file, []byte("modules-off: zdb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mentions(t, "the reload", z.n.Croftd("reload"), "changed: modules-off")
	phase("Running", "WaitsForWorkloads")
	mentions(t, "a new namespace", z.Result(z.Push(z.ZDB(z.n, nil)), workload.StateError).Error, "the node's operator has switched that off")
	z.answers(z.inside(at, "s3cr3t"), "kept", "GET", "key")
	z.gone(mine)
	phase("Disabled", "SwitchedOff")
	z.split.Parts["zdb"].Stop()
	z.deployed(z.volume())
	phase("Disabled", "SwitchedOff")
}

// phase waits until the module zdb is in a phase for that reason, in which the node is ready.
func (z *zdbs) phase(want, why string) {
	z.Helper()
	z.Until(nodetest.Soon, "the module zdb is "+want+" "+why, func() bool {
		m, reason := z.module(node.ZDBModule)
		return m.Phase == want && reason == why
	})
	if ready, _ := z.n.Ready(); !ready.Ready {
		z.Errorf("the node isn't ready while the module zdb is %s: %+v", want, ready)
	}
}

// write makes a file of settings.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "croftd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
