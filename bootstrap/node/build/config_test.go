package main

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/nodeimage"
)

func TestChoose(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, string(nodeimage.EncodePrivateKey(key)))
	for kernel, want := range map[string]string{"": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"} {
		var c config
		if err := c.choose(kernel, file); err != nil || c.newestKernel != want {
			t.Errorf("of %q it is %s, %v", kernel, c.newestKernel, err)
		}
		if want := nodeimage.EncodeKey(key.Public().(ed25519.PublicKey)); !bytes.Equal(c.publicKey(), want) {
			t.Errorf("the public key is %q", c.publicKey())
		}
	}
	var c config
	if err := c.choose("", ""); err != nil || c.publicKey() != nil {
		t.Errorf("without a key it is %q, %v", c.publicKey(), err)
	}
	write(t, file+"2", "no key")
	for _, tt := range []struct{ kernel, key string }{{"5.10", ""}, {"", file + "none"}, {"", file + "2"}} {
		if err := c.choose(tt.kernel, tt.key); err == nil || !strings.HasPrefix(err.Error(), "cannot ") {
			t.Errorf("%v: %v", tt, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
