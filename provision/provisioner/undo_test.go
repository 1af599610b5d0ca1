package provisioner_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
)

func TestRollbackRunsNewestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "steps")
		failing := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "failing")
		var undo provisioner.Undo
		var ran []int
		for i := range n {
			undo.Push("step", func(context.Context) error {
				ran = append(ran, i)
				if failing[i] {
					return errors.New("stuck")
				}
				return nil
			})
		}
		cause := node.Errorf(node.NoSpace, "no room")
		err := undo.Rollback(context.Background(), cause)
		want := node.NoSpace
		if slices.Contains(failing, true) {
			want = node.Unknown
		}
		if node.KindOf(err) != want || !errors.Is(err, cause) {
			t.Fatalf("rollback gives %v of kind %s, want kind %s wrapping the cause", err, node.KindOf(err), want)
		}
		if len(ran) != n {
			t.Fatalf("%d steps ran, want all %d", len(ran), n)
		}
		for i, step := range ran {
			if step != n-1-i {
				t.Fatalf("steps ran in the order %v", ran)
			}
		}
	})
}

func TestRollbackNeedsNoLivingContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var undo provisioner.Undo
	undo.Push("the mount", func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a rollback step has no deadline")
		}
		return ctx.Err()
	})
	cause := errors.New("cause")
	if err := undo.Rollback(ctx, cause); !errors.Is(err, cause) || err.Error() != cause.Error() {
		t.Fatalf("rollback gives %v, want the cause alone", err)
	}
}

func TestRollbackOfMissingParts(t *testing.T) {
	var undo provisioner.Undo
	undo.Push("the file system", func(context.Context) error { return node.Errorf(node.NotExist, "gone") })
	cause := errors.New("cause")
	if err := undo.Rollback(context.Background(), cause); !errors.Is(err, cause) || err.Error() != cause.Error() {
		t.Fatalf("rollback gives %v, want the cause alone", err)
	}
}

func TestRollbackTwiceRunsOnce(t *testing.T) {
	var undo provisioner.Undo
	ran := 0
	undo.Push("once", func(context.Context) error { ran++; return nil })
	start := time.Now()
	_ = undo.Rollback(context.Background(), errors.New("first"))
	_ = undo.Rollback(context.Background(), errors.New("second"))
	if ran != 1 || time.Since(start) > time.Second {
		t.Fatalf("the step ran %d times, want 1", ran)
	}
}
