package fakenode_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func newVolume(name string) node.FilesystemSpec {
	return node.FilesystemSpec{Name: name, Size: 1 << 20, DiskType: workload.SSD}
}

func newNode(t *testing.T) (*fakenode.Node, fakenode.Stubs) {
	t.Helper()
	n := fakenode.New(t, node.Pool{Name: "ssd0", DiskType: workload.SSD, Offered: poolSize})
	return n, n.Serve(t)
}

func TestInjectedFailures(t *testing.T) {
	n, s := newNode(t)
	const method = "Storage.CreateFilesystem"
	create := func(name string) node.Kind {
		_, err := s.Storage.CreateFilesystem(t.Context(), newVolume(name))
		return node.KindOf(err)
	}
	there := func(names ...string) {
		t.Helper()
		var have []string
		for name := range n.Storage.Filesystems() {
			have = append(have, name)
		}
		if slices.Sort(have); !slices.Equal(have, names) {
			t.Errorf("there are %v, want %v", have, names)
		}
	}
	n.Fail(method, node.Errorf(node.NoSpace, "cannot"))
	n.FailNext(method, 1, node.Errorf(node.Busy, "cannot"))
	for _, want := range []node.Kind{node.Busy, node.NoSpace, node.NoSpace} {
		if got := create("1-1"); got != want {
			t.Errorf("it fails with %q, want %s", got, want)
		}
	}
	there()
	n.Fail(method, nil)
	n.LoseNext(method, node.Errorf(node.Unknown, "no answer"))
	if got := create("1-1"); got != node.Unknown {
		t.Errorf("a lost answer is %q", got)
	}
	there("1-1")
	n.Die(1)
	for _, c := range []struct {
		name string
		want node.Kind
	}{{"2-1", ""}, {"3-1", node.Transient}} {
		if got := create(c.name); got != c.want {
			t.Errorf("%s fails with %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := s.Storage.Status(t.Context()); node.KindOf(err) != node.Transient {
		t.Errorf("a dead node answers: %v", err)
	}
	n.Revive()
	n.FailAll(node.Errorf(node.Refused, "cannot"))
	if got := create("3-1"); got != node.Refused {
		t.Errorf("it fails with %q", got)
	}
	n.FailAll(nil)
	there("1-1", "2-1")
	if calls := n.Changes(); len(calls) != 6 || calls[5] != (fakenode.Call{Method: method, ID: "3-1"}) {
		t.Errorf("the record is %v", calls)
	}
}

func TestFailureOfOneObject(t *testing.T) {
	n, s := newNode(t)
	first := fakenode.Call{Method: "Storage.CreateFilesystem", ID: "1-1"}
	want := func(kinds map[string]node.Kind) {
		t.Helper()
		for name, kind := range kinds {
			if _, err := s.Storage.CreateFilesystem(t.Context(), newVolume(name)); node.KindOf(err) != kind {
				t.Errorf("%s: error is %v, want %q", name, err, kind)
			}
		}
	}
	n.FailCall(first, node.Errorf(node.Busy, "cannot"))
	want(map[string]node.Kind{"1-1": node.Busy, "2-1": ""})
	n.FailCall(first, nil)
	want(map[string]node.Kind{"1-1": "", "2-1": ""})
}

func TestCallThatHappensLater(t *testing.T) {
	n, s := newNode(t)
	release := n.Hang("Storage.CreateFilesystem")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Storage.CreateFilesystem(ctx, newVolume("1-1")); err == nil {
		t.Fatal("a hanging call succeeds")
	}
	if have := n.Storage.Filesystems(); len(have) != 0 {
		t.Fatalf("there are %v before its time", have)
	}
	release()
	late := time.After(time.Minute)
	for len(n.Storage.Filesystems()) == 0 {
		select {
		case <-late:
			t.Fatal("it never happens")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestUnknownMethod(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a failure of a method that no contract has is accepted")
		}
	}()
	new(fakenode.Calls).Fail("Storage.Create", nil)
}
