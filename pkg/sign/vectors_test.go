package sign_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/pkg/sign"
)

// recordedKey is a key of testdata/keys.json.
type recordedKey struct {
	ID          string `json:"id_base58"`
	Seed        string `json:"seed_hex"`
	Public      string `json:"ed25519_public_hex"`
	Private     string `json:"ed25519_private_hex"`
	BoxPublic   string `json:"curve25519_public_hex"`
	BoxPrivate  string `json:"curve25519_private_hex"`
	SeedContent string `json:"seed_file_hex"`
}

func (k recordedKey) pair(t *testing.T) sign.KeyPair {
	t.Helper()
	out, err := sign.FromSeed(unhex(t, k.Seed))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func recordedKeys(t *testing.T) map[string]recordedKey {
	t.Helper()
	out := map[string]recordedKey{}
	load(t, "keys.json", &out)
	if len(out) != 4 {
		t.Fatalf("there are %d recorded keys, want 4", len(out))
	}
	return out
}

func load(t *testing.T, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
