package durable_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/store/durable"
	"github.com/croft-edge/croft/provision/store/durable/conformance"
)

func TestFSConforms(t *testing.T) {
	conformance.Run(t, func(t *testing.T) func() durable.Provider {
		root := filepath.Join(t.TempDir(), "made", "on", "the", "way")
		return func() durable.Provider {
			p, err := durable.OpenFS(root, nil)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	})
}

// Each of the disk's errors gets the kind that callers expect.
func TestFSKinds(t *testing.T) {
	for cause, kind := range map[error]node.Kind{
		unix.ENOSPC: node.NoSpace, unix.EDQUOT: node.NoSpace, unix.EIO: node.Internal, unix.EROFS: node.Internal,
	} {
		fail := false
		p, err := durable.OpenFS(t.TempDir(), func(at atomicfile.Point) error {
			if fail && at.Op == atomicfile.Write && !at.After {
				return cause
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		fail = true
		if err := p.Put(durable.Object{Name: "a"}); node.KindOf(err) != kind {
			t.Errorf("%v is %s, want %s", cause, node.KindOf(err), kind)
		}
	}
}

// A folder under an object's name doesn't hide the objects beside it.
func TestFSIgnoresFolders(t *testing.T) {
	p, err := durable.OpenFS(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, name := range []string{"a", "folder/a"} {
		if err := p.Put(durable.Object{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := p.List(""); err != nil || len(names) != 1 {
		t.Errorf("%v, %v, want a", names, err)
	}
}
