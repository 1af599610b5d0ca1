package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// mirrored is a node with a mirror in a folder and one on an S3 server.
type mirrored struct {
	*nodetest.World
	n        *nodetest.Node
	server   *s3test.Server
	recovery string
}

func newMirrored(t *testing.T) *mirrored {
	t.Helper()
	m, args := readyToMirror(t)
	m.n = m.StartNode("n", args...)
	return m
}

// readyToMirror is all of it but the node, and the node's arguments.
func readyToMirror(t *testing.T) (m *mirrored, args []string) {
	t.Helper()
	t.Parallel()
	m = &mirrored{World: nodetest.New(t, bins), server: s3test.New(t)}
	m.StartExplorer()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	m.recovery = m.Path("recovery.seed")
	if err := sign.WriteSeedFile(m.recovery, key, sign.UserSeedMode); err != nil {
		t.Fatal(err)
	}
	secrets := m.Path("secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range s3test.Known() {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	return m, []string{
		"--secrets-dir", secrets, "--recovery-key", key.ID(),
		"--mirrors", "fs://" + m.Path("mirror"), "--mirrors", "s3://" + m.server.Address + "/" + s3test.Bucket + "?path-style=true&tls=false",
	}
}

// mirror is the state of the mirror of a kind.
func (m *mirrored) mirror(kind string) host.MirrorSpec {
	m.Helper()
	for _, each := range m.n.Status().Mirrors {
		if strings.HasPrefix(each.Instance, kind+"-") {
			return each
		}
	}
	return host.MirrorSpec{}
}

// whole waits until a mirror has the whole store.
func (m *mirrored) whole(kind string) {
	m.Helper()
	m.Until(nodetest.Soon, "the mirror has everything", func() bool {
		is := m.mirror(kind)
		return is.Up && is.Complete && is.Lag == 0 && is.Error == ""
	})
}

// warned waits until the node, which stays ready, warns of its mirrors.
func (m *mirrored) warned(of string) {
	m.Helper()
	m.Until(nodetest.Soon, "the node warns: "+of, func() bool {
		ready, is := m.n.Ready()
		return is && strings.Contains(fmt.Sprint(ready.Checks), of)
	})
}

// refused checks that croftd refuses an order, and says why.
func (m *mirrored) refused(why string, order ...string) {
	m.Helper()
	_, err := m.n.TryCroftd(order...)
	var ended *exec.ExitError
	if !errors.As(err, &ended) || !strings.Contains(string(ended.Stderr), why) {
		m.Errorf("croftd %s: %v, want the refusal %q", strings.Join(order, " "), err, why)
	}
}

// lose takes parts of the stopped node's state away.
func (m *mirrored) lose(names ...string) {
	m.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(m.n.StateDir(), name)); err != nil {
			m.Fatal(err)
		}
	}
}

// adopted checks that the node has its volumes with what is on them, and that the explorer has the results that it had.
func (m *mirrored) adopted(volumes ...*workload.Reservation) {
	m.Helper()
	m.n.WaitReady()
	m.Until(nodetest.Soon, "all is adopted", func() bool { return m.n.Status().Counters.Volume == int64(len(volumes)) })
	for _, r := range volumes {
		if got := m.n.Note(r); got != "kept" {
			m.Errorf("the note on %s is %q", r.ID, got)
		}
		m.Result(r, workload.StateOK)
	}
	if orphans := m.n.Status().Orphans; len(orphans) > 0 {
		m.Errorf("orphans: %+v", orphans)
	}
}

// An S3 server that is away costs a warning, and is up to date when it is back. A lost store is restored from it, and all that runs is adopted; the mirror of
// a store that was lost is left as it is meanwhile.
func TestALostStoreIsRestored(t *testing.T) {
	m := newMirrored(t)
	first := m.Reserve(m.n, time.Hour)
	m.Result(first, workload.StateOK)
	m.n.Leave(first, "kept")
	m.whole("s3")

	m.server.Stop()
	second := m.Reserve(m.n, time.Hour)
	m.Result(second, workload.StateOK)
	m.n.Leave(second, "kept")
	m.warned("files behind")
	m.whole("fs")
	m.server.Start()
	m.whole("s3")
	for _, reason := range []string{"MirrorBehind", "MirrorSynced"} {
		m.Until(nodetest.Soon, "the events have "+reason, func() bool {
			return strings.Contains(events(m.World, m.n), reason)
		})
	}

	m.n.Stop()
	m.lose("store")
	m.n.Start()
	m.n.WaitReady()
	m.warned("files of an earlier store of this machine")
	instance := m.mirror("s3").Instance
	m.refused("the node runs", "store", "restore", "--from", instance)
	m.n.Stop()
	m.refused("move the folder away", "store", "restore", "--from", instance)
	m.lose("store")
	if said := m.n.Croftd("store", "restore", "--from", instance); !strings.Contains(said, "0 missing, 0 damaged") {
		t.Errorf("it says %q", said)
	}
	m.n.Start()
	m.adopted(first, second)
	m.whole("s3")
	m.whole("fs")
}

// Where modules are processes, the engine's process alone is stopped for a restore: what the others run is adopted.
func TestAsProcessesALostStoreIsRestored(t *testing.T) {
	m, args := readyToMirror(t)
	n := m.StartSplit("n", args...)
	m.n = n.Node
	r := m.Reserve(m.n, time.Hour)
	m.Result(r, workload.StateOK)
	m.n.Leave(r, "kept")
	m.whole("s3")
	instance := m.mirror("s3").Instance
	m.refused("the node runs", "store", "restore", "--from", instance)
	n.Parts["provision"].Stop()
	m.lose("store")
	if said := m.n.Croftd("store", "restore", "--from", instance); !strings.Contains(said, "0 missing, 0 damaged") {
		t.Errorf("it says %q", said)
	}
	n.StartPart("provision")
	m.adopted(r)
	m.whole("s3")
	n.StopAll()
}

// A machine that has lost its key and its store becomes the same node again by the recovery key, and by no other.
func TestALostNodeIsRestored(t *testing.T) {
	m := newMirrored(t)
	r := m.Reserve(m.n, time.Hour)
	m.Result(r, workload.StateOK)
	m.n.Leave(r, "kept")
	m.whole("fs")
	id := m.n.ID
	m.n.Stop()
	m.lose("store", "identity", "history.db", "state.key")

	stranger, err := sign.Generate()
	if err == nil {
		err = sign.WriteSeedFile(m.Path("stranger.seed"), stranger, sign.UserSeedMode)
	}
	if err != nil {
		t.Fatal(err)
	}
	restore := []string{"store", "restore", "--from", "fs://" + m.Path("mirror")}
	m.refused("no key of a node", restore...)
	m.refused("neither the machine's nor the recovery key", append(restore, "--recovery-seed", m.Path("stranger.seed"), "--machine", id)...)
	if _, err := os.Stat(filepath.Join(m.n.StateDir(), "identity", "seed")); err == nil {
		t.Fatal("a refused restore has left a key")
	}
	m.n.Croftd(append(restore, "--recovery-seed", m.recovery, "--machine", id)...)
	m.n.Start()
	m.adopted(r)
	if got := m.n.Status().NodeID; got != id {
		t.Errorf("it is node %s, was %s", got, id)
	}
}
