package statekey

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// TestStateKey: a key is made once, one of another size is set aside, and where none can be made that is an error.
func TestStateKey(t *testing.T) {
	path, none := filepath.Join(t.TempDir(), "state.key"), secret.Folder("")
	first, err := Get(none, path)
	if err != nil || len(first) != size {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o400 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if again, err := Get(none, path); err != nil || !bytes.Equal(first, again) {
		t.Errorf("another key the next time (%v)", err)
	}
	for _, torn := range []int64{7, 0, secret.MaxSecret + 1} {
		if err := os.Truncate(path, torn); err != nil {
			t.Fatal(err)
		}
		if next, err := Get(none, path); err != nil || len(next) != size || bytes.Equal(first, next) {
			t.Errorf("after a torn one %d bytes, %v", len(next), err)
		}
		if aside, err := os.ReadFile(path + ".damaged"); err != nil || int64(len(aside)) != torn {
			t.Errorf("the torn one has %d bytes, %v", len(aside), err)
		}
	}
	if _, err := Get(none, filepath.Join(path, "below")); err == nil {
		t.Error("no error where none can be made")
	}
}

// TestAStateKeyThatOthersCanReadIsRefused, and left as it is.
func TestAStateKeyThatOthersCanReadIsRefused(t *testing.T) {
	for what, harm := range map[string]struct {
		do   func(path string) error
		says string
	}{
		"its mode":  {func(path string) error { return os.Chmod(path, 0o440) }, "0440, must be 0400 or stricter: chmod 400 "},
		"its owner": {func(path string) error { return os.Chown(path, 1000, 0) }, "belongs to user 1000"},
		"its names": {func(path string) error { return os.Link(path, path+".other") }, "2 names"},
	} {
		path := filepath.Join(t.TempDir(), "state.key")
		before, err := Get(secret.Folder(""), path)
		if err == nil {
			err = harm.do(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Get(secret.Folder(""), path); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), harm.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: it is another one, %v", what, err)
		}
	}
}

// TestAStateKeyOfTheOperators: it is used and written nowhere; one that can't be used is refused, and shown by no error.
func TestAStateKeyOfTheOperators(t *testing.T) {
	key, other := bytes.Repeat([]byte("a key! \n"), 4), bytes.Repeat([]byte{7}, size)
	for what, c := range map[string]struct {
		given, own []byte
		mode       os.FileMode
		kind       node.Kind
		says       string
	}{
		"as it is":             {given: key, mode: 0o400},
		"in hexadecimal":       {given: []byte(hex.EncodeToString(key) + "\n"), mode: 0o400},
		"the node's own too":   {given: key, own: key, mode: 0o400},
		"another one":          {given: key, own: other, mode: 0o400, kind: node.Refused, says: "the history is sealed with the key in "},
		"beside a torn one":    {given: key, own: other[1:], mode: 0o400, kind: node.Refused, says: "move the file away"},
		"too short":            {given: key[1:], mode: 0o400, kind: node.Invalid, says: "has 31 bytes, must be 32 bytes as they are, or their 64 hexadecimal digits"},
		"too long":             {given: append(bytes.Clone(key), '\n'), mode: 0o400, kind: node.Invalid, says: "has 33 bytes"},
		"no hexadecimal":       {given: bytes.Repeat([]byte("g"), 64), mode: 0o400, kind: node.Invalid, says: "has 64 bytes"},
		"that others can read": {given: key, mode: 0o444, kind: node.Refused, says: "0444"},
	} {
		c2 := config.Config{SecretsDir: t.TempDir(), StateDir: t.TempDir()}
		given, own := filepath.Join(c2.SecretsDir, name), filepath.Join(c2.StateDir, "state.key")
		put(t, given, c.given, c.mode)
		if c.own != nil {
			put(t, own, c.own, 0o400)
		}
		got, err := Get(c2.Secrets(), own)
		if c.kind == "" && (err != nil || !bytes.Equal(got, key)) {
			t.Errorf("%s: another key, %v", what, err)
		}
		if c.kind != "" && (node.KindOf(err) != c.kind || !strings.Contains(err.Error(), `"state-key"`) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && (strings.Contains(err.Error(), string(c.given)) || strings.Contains(err.Error(), hex.EncodeToString(c.given))) {
			t.Errorf("%s: the error shows the key", what)
		}
		if after, err := os.ReadFile(own); !bytes.Equal(after, c.own) || (c.own == nil) != os.IsNotExist(err) {
			t.Errorf("%s: the node's own has %d bytes, %v", what, len(after), err)
		}
	}
}

// TestCredentialsComeFirst: a credential of systemd's is used before the folder's secret of that name.
func TestCredentialsComeFirst(t *testing.T) {
	c, credentials := config.Config{SecretsDir: t.TempDir()}, t.TempDir()
	t.Setenv(secret.CredentialsVariable, credentials)
	put(t, filepath.Join(c.SecretsDir, name), bytes.Repeat([]byte{1}, size), 0o400)
	put(t, filepath.Join(credentials, name), bytes.Repeat([]byte{2}, size), 0o440)
	if key, err := Get(c.Secrets(), filepath.Join(t.TempDir(), "state.key")); err != nil || key[0] != 2 {
		t.Errorf("%d bytes, %v", len(key), err)
	}
}

func put(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	err := os.WriteFile(path, content, mode)
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
