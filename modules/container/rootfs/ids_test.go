package rootfs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestIDs(t *testing.T) {
	for _, id := range []string{"1-1", "12-345", "zdb-ssd0-user", "zdb-a-1-seq", "a-" + strings.Repeat("b", 62)} {
		if err := validID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{
		"", "1", "01-1", "1-01", "1-1-1", "-1-1", "zdb", "Zdb-a", "zdb-A", "zdb--a", "-zdb-a", "zdb-a-", "zdb-a.b", "zdb_a-b", "zdb-a/b", "../zdb-a",
		"zdb-a\n", "zdb-é", "1-a", "a-" + strings.Repeat("b", 63),
	} {
		if err := validID(id); !errors.Is(err, node.Invalid) {
			t.Errorf("%q: %v, want it invalid", id, err)
		}
	}
}

// A container of the node's own is listed and removed as those of users.
func TestOwnContainers(t *testing.T) {
	w := newWorld(t)
	w.make(w.spec("zdb-ssd0-user"))
	w.make(w.spec("1-1"))
	if ids, err := w.store.List(); err != nil || !slices.Equal(ids, []string{"1-1", "zdb-ssd0-user"}) {
		t.Errorf("there are %v (%v)", ids, err)
	}
	must(t, w.store.Remove(t.Context(), "zdb-ssd0-user"))
	w.nothing("zdb-ssd0-user")
	w.whole("1-1", 2)
}
