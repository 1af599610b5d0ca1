package identity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

func made(t *testing.T) *sign.KeyPair {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return &key
}

// refused checks that no key is opened, why, and that nothing in the folder has changed.
func refused(t *testing.T, dir string, given *sign.KeyPair, says ...string) {
	t.Helper()
	before := files(t, dir)
	for range 2 {
		_, err := Open(Config{Dir: dir, Given: given})
		if !errors.Is(err, node.Refused) {
			t.Fatalf("the error is %v (%s)", err, node.KindOf(err))
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q doesn't say %q", err, text)
			}
		}
	}
	if after := files(t, dir); after != before {
		t.Errorf("the folder had\n%s\nand has\n%s", before, after)
	}
}

// files are the names, modes and contents of a folder's files.
func files(t *testing.T, dir string) (out string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range all {
		content, err := os.ReadFile(filepath.Join(dir, each.Name()))
		info, e := each.Info()
		if err != nil || e != nil {
			t.Fatal(err, e)
		}
		out += info.Mode().String() + " " + each.Name() + " " + string(content) + "\n"
	}
	return out
}

func ofGiven(t *testing.T, dir string, given *sign.KeyPair) {
	t.Helper()
	m, err := Open(Config{Dir: dir, Given: given})
	if err != nil || m.NodeID() != given.ID() {
		t.Fatalf("it is another node, %v", err)
	}
}

// TestAGivenKeyIsWrittenNowhere, but the node's ID is: without the key there is no node, and no other one.
func TestAGivenKeyIsWrittenNowhere(t *testing.T) {
	dir, given := filepath.Join(t.TempDir(), "identity"), made(t)
	for range 2 {
		ofGiven(t, dir, given)
	}
	if have := files(t, dir); have != "-r-------- node-id "+given.ID()+"\n\n" {
		t.Errorf("the folder has %q", have)
	}
	refused(t, dir, nil, "cannot find the key of node "+given.ID(), "give it again")
	other := made(t)
	refused(t, dir, other, "cannot use the key of node "+other.ID(), "this machine is node "+given.ID())
	if _, err := Load(dir, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load's error is %v", err)
	}
	if err := sign.WriteSeedFile(filepath.Join(dir, seedFile), *other, sign.NodeSeedMode); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, nil, "cannot use the key of node "+other.ID(), "this machine is node "+given.ID())
	refused(t, dir, given, "cannot use the given key", other.ID())
	if err := os.Remove(filepath.Join(dir, seedFile)); err != nil {
		t.Fatal(err)
	}
	ofGiven(t, dir, given)
}

// TestAGivenKeyAndAStoredOne: the same one may be given, and the file may then be taken away; another one is refused.
func TestAGivenKeyAndAStoredOne(t *testing.T) {
	dir := t.TempDir()
	id := opened(t, dir).NodeID()
	other := made(t)
	refused(t, dir, other, "cannot use the given key, of node "+other.ID(), "this machine is node "+id, filepath.Join(dir, "seed"))
	if opened(t, dir).NodeID() != id {
		t.Error("it is another node")
	}
	stored, err := Load(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ofGiven(t, dir, &stored)
	if opened(t, dir).NodeID() != id {
		t.Error("it is another node")
	}
	if err := os.Remove(filepath.Join(dir, "seed")); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, nil, "cannot find the key of node "+id)
	ofGiven(t, dir, &stored)
}

// TestASeedOfAnotherUserIsRefused, also where the same key is given.
func TestASeedOfAnotherUserIsRefused(t *testing.T) {
	dir := t.TempDir()
	opened(t, dir)
	stored, err := Load(dir, nil)
	if err == nil {
		err = os.Chown(filepath.Join(dir, "seed"), 1000, 1000)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused(t, dir, nil, "belongs to user 1000", "chown root: ")
	refused(t, dir, &stored, "belongs to user 1000")
}
