package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// bins are the programs under test, built once.
var bins nodetest.Binaries

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("/var/tmp", "croft-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Users other than root run croftd too, in TestWithoutRoot.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if bins, err = nodetest.Build(context.Background(), dir, "-race"); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs under test:", err)
		return 1
	}
	return m.Run()
}

// whole makes a world with an explorer and one node in one process.
func whole(t *testing.T, args ...string) (*nodetest.World, *nodetest.Node) {
	t.Helper()
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	return w, w.StartNode("n", args...)
}

// events are a node's events, as croft get prints them.
func events(w *nodetest.World, n *nodetest.Node) string {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), w.Croft, "get", "events", "--state-socket", filepath.Join(n.RunDir(), "state.sock")).Output()
	if err != nil {
		w.Fatal(err)
	}
	return string(out)
}

// fill writes up to size bytes of a new file and returns how many it could write.
func fill(path string, size int) (int, error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	written := 0
	for written < size {
		n, err := file.Write(block)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, file.Sync()
}

func TestAVolumeFromReservationToDeletion(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	result := w.Result(r, workload.StateOK)
	if string(result.Data) != `{"volume_id":"`+r.ID+`"}` {
		t.Errorf("data is %s", result.Data)
	}
	written, err := fill(filepath.Join(n.VolumePath(r), "big"), 1100<<20)
	if !errors.Is(err, unix.EDQUOT) {
		t.Errorf("wrote %d MiB into a volume of 1024: %v", written>>20, err)
	}
	if written < 900<<20 {
		t.Errorf("only %d MiB fit into a volume of 1024", written>>20)
	}
	s := n.Status()
	if s.NodeID != n.ID || !s.OneProcess || !s.Adopted || len(s.Workloads) != 1 || s.Workloads[0].Phase != "deployed" || s.Counters.Volume != 1 {
		t.Errorf("status %+v", s)
	}
	if got := w.Counters(n).Volume; got != 1 {
		t.Errorf("counters over the bus: %d volumes", got)
	}
	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	if left := n.Subvolumes(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	w.Until(nodetest.Soon, "the counters are 0", func() bool { return w.Counters(n).Volume == 0 })
	n.Stop()
}

func TestTheExplorerKnowsTheNode(t *testing.T) {
	w, n := whole(t, "--reserve-memory", "1GiB")
	w.Until(nodetest.Soon, "it is registered and online", func() bool {
		got, err := w.Client.Node(w.Context(), n.ID)
		return err == nil && got.Online && got.TotalResources.CRU > 0 && got.TotalResources.SRU == 7 &&
			got.Birth == n.Status().Store.Birth && got.OSVersion != "" && len(got.Ifaces) == 1 && got.FreeResources != nil
	})
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	w.Until(nodetest.Soon, "the volume counts as used", func() bool {
		got, err := w.Client.Node(w.Context(), n.ID)
		return err == nil && got.UsedResources.SRU == 1 && got.FreeResources.SRU == 6
	})
}

func TestReportedFreeSpaceCanBeReserved(t *testing.T) {
	w, n := whole(t, "--pool-size", "5GiB")
	known, err := w.Client.Node(w.Context(), n.ID)
	if err != nil {
		t.Fatal(err)
	}
	for range known.FreeResources.SRU {
		w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	}
	if got := w.Result(w.Reserve(n, time.Hour), workload.StateError).Error; !strings.Contains(got, "1 GiB") || !strings.Contains(got, "free") {
		t.Errorf("one more than is free: %q", got)
	}
}

// Also beside namespaces, which take more than their values; and storage must not be the one to refuse.
func TestReportedFreeSpaceCanBeReservedBesideZDB(t *testing.T) {
	z := newZDBs(t, "--pool-size", "12GiB")
	z.made(nil)
	z.made(nil)
	// 10.7 GiB are offered, two namespaces of 1 GiB have 3, their zdb container 0.1.
	const free = 7
	var last uint64
	z.Until(nodetest.Soon, "the explorer knows what is free", func() bool {
		known, err := z.Client.Node(z.Context(), z.n.ID)
		if err == nil && known.FreeResources != nil && known.FreeResources.SRU != last {
			last = known.FreeResources.SRU
			t.Logf("free are said to be %d GiB", last)
		}
		return last == free
	})
	for range free {
		z.Result(z.Reserve(z.n, time.Hour), workload.StateOK)
	}
	if got := z.Result(z.Reserve(z.n, time.Hour), workload.StateError).Error; !strings.Contains(got, "cannot admit") || !strings.Contains(got, "free") {
		t.Errorf("one more than is free: %q", got)
	}
}

func TestAVolumeExpires(t *testing.T) {
	w, n := whole(t)
	kept := w.Reserve(n, time.Hour)
	w.Result(kept, workload.StateOK)
	r := w.Expiring(3*time.Second, func(d time.Duration) *workload.Reservation { return w.Reserve(n, d) })
	w.Result(r, workload.StateExpired)
	if left := n.Subvolumes(); len(left) != 1 || left[kept.ID] == "" {
		t.Errorf("left: %v, want %s only", left, kept.ID)
	}
	if since := time.Since(r.Expires()); since < 0 {
		t.Errorf("it expired %s too early", -since)
	}
}

func TestARenewalKeepsTheData(t *testing.T) {
	w, n := whole(t)
	r := w.Expiring(5*time.Second, func(d time.Duration) *workload.Reservation { return w.Reserve(n, d) })
	n.Leave(r, "kept")
	end := r.Expires()
	if err := r.SignRenewal(workload.Renewal{Expires: time.Now().Add(time.Hour)}, w.User.Private()); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Renew(w.Context(), r.ID, *r.Renewal); err != nil {
		t.Fatal(err)
	}
	w.Until(nodetest.Soon, "the node knows of it", func() bool {
		all := n.Status().Workloads
		return len(all) == 1 && all[0].Expires.Equal(r.Renewal.Expires)
	})
	w.Until(nodetest.Soon, "the old end is over", func() bool { return time.Now().After(end.Add(time.Second)) })
	if got := n.Note(r); got != "kept" {
		t.Errorf("the note is %q", got)
	}
}

func TestNothingIsMadeForTheInvalid(t *testing.T) {
	w := nodetest.New(t, bins)
	t.Parallel()
	w.StartExplorer()
	liar := startProxy(t, w)
	n := w.StartNode("n", "--explorer", liar.URL)
	genuine := w.Reserve(n, time.Hour)
	w.Result(genuine, workload.StateOK)

	tampered := w.Volume(n.ID, 1, time.Hour)
	tampered.Data = []byte(`{"size":2,"type":"SSD"}`)
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	foreign := w.Volume(stranger.ID(), 1, time.Hour)
	unsigned := w.Volume(n.ID, 1, time.Hour)
	unsigned.Signature = nil
	replayed := *genuine
	outside := w.Volume(n.ID, 1, time.Hour)
	for i, r := range []*workload.Reservation{tampered, foreign, unsigned, &replayed, outside} {
		r.ID = fmt.Sprintf("%d-1", 9001+i)
	}
	outside.ID = "../../9005-1"
	moved := *w.Volume(n.ID, 2, time.Hour)
	moved.ID = genuine.ID
	liar.Slip(t, tampered, foreign, unsigned, &replayed, outside, &moved)

	after := w.Reserve(n, time.Hour)
	w.Result(after, workload.StateOK)
	w.Until(nodetest.Soon, "the replay is answered", func() bool {
		return strings.Contains(liar.Results(replayed.ID), `"state":"error"`)
	})
	got := n.Subvolumes()
	if len(got) != 2 || got[genuine.ID] == "" || got[after.ID] == "" {
		t.Errorf("on the node: %v, want %s and %s", got, genuine.ID, after.ID)
	}
	for _, r := range []*workload.Reservation{tampered, foreign, unsigned} {
		if answer := liar.Results(r.ID); answer != "" {
			t.Errorf("a forgery got an answer: %s", answer)
		}
	}
	for _, x := range n.Status().Workloads {
		if x.ID == genuine.ID && (x.Phase != "deployed" || x.State != workload.StateOK) {
			t.Errorf("the genuine one is %+v", x)
		}
	}
}

func TestRefusalNamesAllowedValues(t *testing.T) {
	w, n := whole(t)
	for _, c := range []struct{ data, want string }{
		{`{"size":0,"type":"SSD"}`, "size"},
		{`{"size":100000,"type":"SSD"}`, "GiB"},
		{`{"size":1,"type":"SSD","colour":"red"}`, "colour"},
		{`{"size":1,"type":"HDD"}`, "HDD"},
	} {
		r := w.Volume(n.ID, 1, time.Hour)
		r.Data = []byte(c.data)
		if err := r.Sign(w.User.Private()); err != nil {
			t.Fatal(err)
		}
		// The explorer may refuse it already; otherwise the node must.
		id, err := w.Client.Reserve(w.Context(), r)
		text := fmt.Sprint(err)
		if err == nil {
			r.ID = id
			text = w.Result(r, workload.StateError).Error
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: %q doesn't name %s", c.data, text, c.want)
		}
	}
	if left := n.Subvolumes(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTheOperatorsLimitsHold(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer("--accept-signature-v1")
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	few := w.StartNode("few", "--max-user-workloads", "1", "--max-duration", "2h", "--max-user-ssd", "1GiB")
	private := w.StartNode("private", "--allow-users", stranger.ID(), "--reserve-disk", "3GiB", "--accept-signature-v1")

	w.Result(w.Reserve(few, time.Hour), workload.StateOK)
	old := *w.Volume(private.ID, 1, time.Hour)
	old.Version, old.Nonce, old.Signature, old.User = workload.V1, nil, nil, ""
	if err := old.Sign(stranger.Private()); err != nil {
		t.Fatal(err)
	}
	late := w.Volume(few.ID, 1, 3*time.Hour)
	for _, c := range []struct {
		name string
		r    *workload.Reservation
		want string
	}{
		{"one too many", w.Volume(few.ID, 1, time.Hour), "at most 1"},
		{"too long", late, "at most 2h0m0s"},
		{"somebody else", w.Volume(private.ID, 1, time.Hour), "isn't allowed on this node"},
	} {
		if got := w.Result(w.Push(c.r), workload.StateError).Error; !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	w.Push(&old)
	w.Until(nodetest.Soon, "a version 1 reservation is carried out where it is accepted", func() bool {
		return private.Subvolumes()[old.ID] != ""
	})
	known, err := w.Client.Node(w.Context(), private.ID)
	if err != nil || known.TotalResources.SRU != 4 {
		t.Errorf("8 GiB less a reserve of 3 is offered as %d GiB, %v", known.TotalResources.SRU, err)
	}
	oldHere := old
	oldHere.ID, oldHere.NodeID, oldHere.Signature, oldHere.User = "", few.ID, nil, ""
	if err := oldHere.Sign(stranger.Private()); err != nil {
		t.Fatal(err)
	}
	w.Push(&oldHere)
	w.Until(nodetest.Soon, "a version 1 reservation is refused elsewhere", func() bool {
		got, err := w.Client.Get(w.Context(), oldHere.ID)
		return err == nil && got.Result != nil && strings.Contains(got.Result.Error, "version")
	})
}

func TestEvictionKeepsTheData(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	n.Leave(r, "still here")
	if _, err := n.TryCroftd("evict", r.ID); exitStatus(err) != 5 {
		t.Errorf("without --yes: %v", err)
	}
	n.Croftd("evict", r.ID, "--yes")
	w.Result(r, workload.StateEvicted)
	if got := n.Note(r); got != "still here" {
		t.Errorf("the note is %q", got)
	}
	if _, err := n.TryCroftd("evict", "77-1", "--yes"); exitStatus(err) != 1 {
		t.Errorf("an eviction of nothing: %v", err)
	}
}

func TestTwoNodesSideBySide(t *testing.T) {
	w, a := whole(t)
	b := w.StartNode("m")
	if a.ID == b.ID {
		t.Fatal("two nodes have one ID")
	}
	ra, rb := w.Reserve(a, time.Hour), w.Reserve(b, time.Hour)
	w.Result(ra, workload.StateOK)
	w.Result(rb, workload.StateOK)
	if len(a.Subvolumes()) != 1 || len(b.Subvolumes()) != 1 {
		t.Errorf("%v and %v", a.Subvolumes(), b.Subvolumes())
	}
	c := w.NewNode("n", "--health-file", w.Path("other"))
	c.Start("--health-file", w.Path("other"))
	if err := c.Wait(syscall.Signal(0), 20*time.Second); exitStatus(err) <= 0 || !strings.Contains(c.Output(), "another process") {
		t.Errorf("a second node on the same state ended with %v", err)
	}
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

func TestWithoutRoot(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"status"}, {"id"}, {"storage", "destroy", "--all", "--yes"}} {
		cmd := exec.Command(bins.Croftd, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if exitStatus(err) != 3 || strings.Count(string(out), "\n") != 1 || !strings.HasPrefix(string(out), "croftd: needs root: ") {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
}

func TestDestroyingThePool(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	if _, err := n.TryCroftd("storage", "destroy", "--all", "--yes"); exitStatus(err) != 5 {
		t.Errorf("destroying the pool of a running node: %v", err)
	}
	n.Stop()
	if _, err := n.TryCroftd("storage", "destroy", "--pool", "ssd0", "--yes"); exitStatus(err) != 5 {
		t.Errorf("a pool with a volume: %v", err)
	}
	if len(n.Subvolumes()) != 1 {
		t.Errorf("a refused destroy left %v", n.Subvolumes())
	}
	n.Croftd("storage", "detach")
	if mounts, err := nodetest.Mounts(filepath.Join(n.RunDir(), "pools")); err != nil || len(mounts) != 0 {
		t.Errorf("still mounted: %v, %v", mounts, err)
	}
	n.Croftd("storage", "destroy", "--pool", "ssd0", "--yes", "--force")
	loops, err := nodetest.Loops(n.Dir())
	if err != nil || len(loops) != 0 {
		t.Errorf("loop devices left: %v %v", loops, err)
	}
	images, err := filepath.Glob(filepath.Join(n.StateDir(), "storage", "pools", "*.img*"))
	if err != nil || len(images) != 0 {
		t.Errorf("images left: %v %v", images, err)
	}
	n.Croftd("storage", "destroy", "--all", "--yes")
	if _, err := n.TryCroftd("storage", "destroy", "--pool", "ssd0", "--yes"); exitStatus(err) != 1 {
		t.Errorf("a pool that is gone: %v", err)
	}
}
