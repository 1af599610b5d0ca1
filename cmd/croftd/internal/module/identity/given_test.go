package identity_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/identity"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// give puts the secret node-seed into a new folder of secrets.
func give(t *testing.T, content []byte, mode os.FileMode) config.Config {
	t.Helper()
	c := config.Config{StateDir: filepath.Join(t.TempDir(), "state"), SecretsDir: t.TempDir()}
	path := filepath.Join(c.SecretsDir, "node-seed")
	err := os.WriteFile(path, content, mode)
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestASeedOfTheOperators: in each form it makes the machine that node, which isn't a new one; one that can't be used is refused, nothing is made, and no
// error shows it.
func TestASeedOfTheOperators(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	raw, file := key.Seed(), sign.EncodeSeed(key)
	for name, c := range map[string]struct {
		given []byte
		mode  os.FileMode
		kind  node.Kind
		says  string
	}{
		"a seed file":          {given: file, mode: 0o400},
		"its bytes":            {given: raw, mode: 0o400},
		"in hexadecimal":       {given: []byte(hex.EncodeToString(raw) + "\n"), mode: 0o400},
		"too short":            {given: raw[1:], mode: 0o400, kind: node.Invalid, says: "has 31 bytes, must be a seed file as it is, 32 bytes, or their 64 hexadecimal digits"},
		"too long":             {given: append(bytes.Clone(file), 7), mode: 0o400, kind: node.Invalid, says: "has 40 bytes"},
		"no hexadecimal":       {given: bytes.Repeat([]byte("g"), 64), mode: 0o400, kind: node.Invalid, says: "has 64 bytes"},
		"of a later version":   {given: bytes.Replace(file, []byte("1"), []byte("2"), 1), mode: 0o400, kind: node.Invalid, says: "has 39 bytes"},
		"that others can read": {given: file, mode: 0o440, kind: node.Refused, says: "0440, must be 0400 or stricter"},
	} {
		settings := give(t, c.given, c.mode)
		id, err := identity.NodeID(settings)
		if c.kind == "" {
			if err != nil || id != key.ID() {
				t.Errorf("%s: node %s, %v", name, id, err)
			}
			if own, err := identity.Key(settings); err != nil || own.ID() != key.ID() {
				t.Errorf("%s: the key is %s's, %v", name, own.ID(), err)
			}
		} else if node.KindOf(err) != c.kind || !strings.Contains(err.Error(), `"node-seed"`) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), string(c.given)) {
			t.Errorf("%s: %v", name, err)
		}
		for _, made := range []string{identity.SeedFile(settings), identity.NewbornFile(settings)} {
			if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: there is %s, %v", name, made, err)
			}
		}
	}
}

// TestASeedGivenToTheServiceAlone: systemd's credential comes first, and a command that hasn't got it knows the node's ID, and makes no key.
func TestASeedGivenToTheServiceAlone(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	credentials, c := give(t, sign.EncodeSeed(key), 0o440), give(t, []byte("not this one"), 0o400)
	t.Setenv(secret.CredentialsVariable, credentials.SecretsDir)
	if id, err := identity.NodeID(c); err != nil || id != key.ID() {
		t.Fatalf("node %s, %v", id, err)
	}
	t.Setenv(secret.CredentialsVariable, "")
	if err := os.Remove(filepath.Join(c.SecretsDir, "node-seed")); err != nil {
		t.Fatal(err)
	}
	if id, err := identity.NodeID(c); err != nil || id != key.ID() {
		t.Errorf("node %s, %v", id, err)
	}
	if _, err := identity.Key(c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key: %v", err)
	}
	if _, err := os.Lstat(identity.SeedFile(c)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a seed: %v", err)
	}
}

// TestASeedOfAnotherNode is refused where the machine has a key, which stays.
func TestASeedOfAnotherNode(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	c := give(t, sign.EncodeSeed(key), 0o400)
	own := c
	own.SecretsDir = ""
	id, err := identity.NodeID(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(identity.NewbornFile(c)); err != nil {
		t.Errorf("a node with a new key isn't new: %v", err)
	}
	if _, err := identity.NodeID(c); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), key.ID()) {
		t.Errorf("%v", err)
	}
	if _, err := identity.Key(c); node.KindOf(err) != node.Refused {
		t.Errorf("the key: %v", err)
	}
	if again, err := identity.NodeID(own); err != nil || again != id {
		t.Errorf("node %s, was %s; %v", again, id, err)
	}
}
