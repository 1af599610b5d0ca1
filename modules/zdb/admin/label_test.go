package admin

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/zdb/check"
	"github.com/croft-edge/croft/pkg/node"
)

func write(t *testing.T, data, name, hash string) {
	t.Helper()
	if err := setLabel(data, name, hash); err != nil {
		t.Fatal(err)
	}
}

func TestLabels(t *testing.T) {
	data, hash := t.TempDir(), strings.Repeat("1a", 32)
	want := func(name, want string) {
		t.Helper()
		if got, err := labelOf(data, name); err != nil || got != want {
			t.Errorf("the label of %s is %q, %v, want %q", name, got, err, want)
		}
	}
	want("5-1", "")
	write(t, data, "5-1", hash)
	write(t, data, strings.Repeat("5", check.LongestID), hash)
	want("5-1", hash)
	want(strings.Repeat("5", check.LongestID), hash)
	want("5-10", "")
	write(t, data, "5-1", "")
	want("5-1", "")
	if err := dropLabel(data, "5-1"); err != nil {
		t.Errorf("one that isn't there: %v", err)
	}
	gone := filepath.Join(data, "gone")
	if _, err := labelOf(gone, "5-1"); node.KindOf(err) != node.Transient {
		t.Errorf("without a volume: %v", err)
	}
	if err := setLabel(gone, "5-1", hash); node.KindOf(err) != node.Transient {
		t.Errorf("without a volume: %v", err)
	}
}

// TestStaleLabel is of a node that died between the end of a namespace and that
// of its label: who comes next with the same ID isn't taken for its owner.
func TestStaleLabel(t *testing.T) {
	data := t.TempDir()
	write(t, data, "5-1", strings.Repeat("1a", 32))
	spec := node.ZDBNamespaceSpec{Container: "zdb", Name: "5-1", Size: 10, Hash: strings.Repeat("2b", 32)}
	after := infoReply(node.ZDBNamespace{Name: "5-1", Mode: "user", Size: 10})
	a, _ := script(t, map[string][]string{"NSINFO 5-1": {missing, after}})
	made, err := a.Create(node.ZDBServerSpec{Mode: "user", Data: data}, spec)
	if err != nil || made.Hash != spec.Hash {
		t.Errorf("made %+v, %v", made, err)
	}
}
