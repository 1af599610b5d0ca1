package verity

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// file makes a file of that many random bytes.
func file(t *testing.T, bytes int) string {
	t.Helper()
	content := make([]byte, bytes)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content)
	path := filepath.Join(t.TempDir(), "root")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVeritysetupAgrees holds the tree and the root hash against cryptsetup's program, for one, two and three levels.
func TestVeritysetupAgrees(t *testing.T) {
	for _, size := range []int{BlockBytes + 1, 128 * BlockBytes, 129 * BlockBytes, 300*BlockBytes - 7, 17000 * BlockBytes} {
		path := file(t, size)
		tree, err := Append(path, []byte("salt"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() != tree.FileBytes() {
			t.Errorf("%d bytes: the file has %d, %v; want %d", size, info.Size(), err, tree.FileBytes())
		}
		out, err := exec.CommandContext(t.Context(), "veritysetup", "verify", path, path, tree.RootHash, "--no-superblock", "--hash=sha256", //nolint:gosec // arguments of this test
			"--salt="+hex.EncodeToString([]byte("salt")), fmt.Sprintf("--data-blocks=%d", tree.DataBlocks),
			fmt.Sprintf("--hash-offset=%d", tree.DataBlocks*BlockBytes)).CombinedOutput()
		if err != nil {
			t.Errorf("%d bytes: veritysetup: %v: %s", size, err, out)
		}
	}
}

func TestCheckTop(t *testing.T) {
	for _, size := range []int{2 * BlockBytes, 300 * BlockBytes} { // one level and two
		path := file(t, size)
		tree, err := Append(path, []byte("salt"))
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.CheckTop(bytes.NewReader(content)); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		changed := bytes.Clone(content)
		changed[size] ^= 1
		for name, wrong := range map[string][]byte{"a changed bit": changed, "no tree": content[:size], "half a block": content[:size+BlockBytes/2]} {
			if err := tree.CheckTop(bytes.NewReader(wrong)); err == nil {
				t.Errorf("%d bytes: %s: the tree is right", size, name)
			}
		}
		salted := tree
		salted.Salt = "00"
		if err := salted.CheckTop(bytes.NewReader(content)); err == nil {
			t.Errorf("%d bytes: with another salt the tree is right", size)
		}
	}
}

func TestTable(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	got := Tree{DataBlocks: 300, Salt: "beef", RootHash: hash}.Table("/dev/loop0")
	if want := "1 /dev/loop0 /dev/loop0 4096 4096 300 300 sha256 " + hash + " beef"; got != want {
		t.Errorf("the table is %q, want %q", got, want)
	}
}

func TestNoTree(t *testing.T) {
	if _, err := Append(file(t, 0), []byte("salt")); err == nil {
		t.Error("an empty file has a tree")
	}
	if _, err := Append(file(t, BlockBytes), []byte("salt")); err == nil {
		t.Error("a file of one block has a tree")
	}
	if _, err := Append(file(t, 2*BlockBytes), nil); err == nil {
		t.Error("a tree has no salt")
	}
	if _, err := Append(filepath.Join(t.TempDir(), "none"), []byte("salt")); err == nil {
		t.Error("a file that isn't there has a tree")
	}
}
