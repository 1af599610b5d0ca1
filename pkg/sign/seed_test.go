package sign_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/sign"
)

func TestSeedFilesAsRecorded(t *testing.T) {
	for name, v := range recordedKeys(t) {
		s, err := sign.ReadSeedFile(filepath.Join("testdata", name+".seed"))
		if err != nil {
			t.Fatal(err)
		}
		if s.ID() != v.ID || s.Unversioned {
			t.Errorf("%s: ID is %s, unversioned %v", name, s.ID(), s.Unversioned)
		}
		if got := hex.EncodeToString(sign.EncodeSeed(s.KeyPair)); got != v.SeedContent {
			t.Errorf("%s: content is %s, want %s", name, got, v.SeedContent)
		}
	}
	s, err := sign.ReadSeedFile("testdata/node1-unversioned.seed")
	if err != nil || !s.Unversioned || s.ID() != recordedKeys(t)["node1"].ID {
		t.Errorf("unversioned: %s, %v, %v", s.ID(), s.Unversioned, err)
	}
}

func TestSeedsThatAreRefused(t *testing.T) {
	raw := bytes.Repeat([]byte{7}, 32)
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "has 0 bytes"},
		{"short", raw[:31], "has 31 bytes"},
		{"long", append(bytes.Clone(raw), 0), "has 33 bytes"},
		{"newline", append([]byte(`"1.0.0"`), append(bytes.Clone(raw), '\n')...), "33 bytes after its version"},
		{"newer", append([]byte(`"2.0.0"`), raw...), `its version is "2.0.0", must be "1.0.0"`},
		{"older", append([]byte(`"0.9.9"`), raw...), "must be"},
		{"patch", append([]byte(`"1.0.1"`), raw...), "must be"},
		// A torn file of 32 bytes must not become another key.
		{"torn", append([]byte(`"1.0.0"`), raw[:25]...), "25 bytes after its version"},
		{"only a version", []byte(`"1.0.0"`), "0 bytes after its version"},
		{"hex", []byte(hex.EncodeToString(raw)), "has 64 bytes"},
	} {
		_, err := sign.DecodeSeed(c.content)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", c.name, err, c.want)
		}
		path := filepath.Join(t.TempDir(), "seed")
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sign.ReadSeedFile(path); err == nil {
			t.Errorf("%s: the file is read", c.name)
		}
	}
}

func TestSeedFileIsWrittenOnce(t *testing.T) {
	k := recordedKeys(t)["user"].pair(t)
	for _, mode := range []os.FileMode{sign.NodeSeedMode, sign.UserSeedMode} {
		dir := t.TempDir()
		path := filepath.Join(dir, "key.seed")
		if err := sign.WriteSeedFile(path, k, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("mode is %v, want %v, %v", info.Mode(), mode, err)
		}
		s, err := sign.ReadPrivateSeedFile(path)
		if err != nil || s.ID() != k.ID() || s.Unversioned {
			t.Errorf("read %s, %v", s.ID(), err)
		}
		other := recordedKeys(t)["other-user"].pair(t)
		if err := sign.WriteSeedFile(path, other, mode); !errors.Is(err, os.ErrExist) {
			t.Errorf("writing again: error is %v", err)
		}
		if s, err := sign.ReadSeedFile(path); err != nil || s.ID() != k.ID() {
			t.Errorf("after writing again it holds %s, %v", s.ID(), err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("left in the folder: %v, %v", left, err)
		}
	}
}

func TestSeedFileHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.seed")
	const writers = 8
	keys := make([]sign.KeyPair, writers)
	failed := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		var err error
		if keys[i], err = sign.Generate(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { failed[i] = sign.WriteSeedFile(path, keys[i], sign.UserSeedMode) })
	}
	wg.Wait()
	s, err := sign.ReadSeedFile(path)
	if err != nil {
		t.Fatal(err)
	}
	won := 0
	for i, err := range failed {
		if err == nil {
			won++
			if keys[i].ID() != s.ID() {
				t.Errorf("%s was written, %s is there", keys[i].ID(), s.ID())
			}
		}
	}
	if won != 1 {
		t.Errorf("%d writers believe that theirs is there", won)
	}
}

func TestSeedFileInNoFolder(t *testing.T) {
	k := recordedKeys(t)["user"].pair(t)
	err := sign.WriteSeedFile(filepath.Join(t.TempDir(), "none", "key.seed"), k, sign.UserSeedMode)
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "cannot write seed ") {
		t.Errorf("error is %v", err)
	}
	if _, err := sign.ReadSeedFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	if _, err := sign.ReadSeedFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "isn't a regular file") {
		t.Errorf("a folder: error is %v", err)
	}
}

func TestSeedFileThatOthersMayRead(t *testing.T) {
	k := recordedKeys(t)["user"].pair(t)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o610, 0o644} {
		path := filepath.Join(t.TempDir(), "key.seed")
		if err := sign.WriteSeedFile(path, k, mode); err != nil {
			t.Fatal(err)
		}
		_, err := sign.ReadPrivateSeedFile(path)
		if err == nil || !strings.Contains(err.Error(), "chmod 600") || !strings.Contains(err.Error(), path) {
			t.Errorf("%o: error is %v", mode, err)
		}
		if _, err := sign.ReadSeedFile(path); err != nil {
			t.Errorf("%o: %v", mode, err)
		}
	}
}

// Errors about a seed don't repeat the seed.
func TestSeedErrorsHoldNoSeed(t *testing.T) {
	for _, content := range []string{`"1.0.0"SECRETSECRET`, "SECRETSECRET", `"9.9.9"SECRETSECRET`} {
		if _, err := sign.DecodeSeed([]byte(content)); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: error is %v", content, err)
		}
	}
}
