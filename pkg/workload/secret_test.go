package workload_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestSecretIsBound(t *testing.T) {
	node, user, other := testKey(t, "node1"), testKey(t, "user").ID(), testKey(t, "other-user").ID()
	sealed, err := workload.SealSecret(node.ID(), user, workload.TypeZDB, "password", []byte("s3cr3t"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := workload.OpenSecret(node.Open, user, workload.TypeZDB, "password", sealed)
	if err != nil || string(plain) != "s3cr3t" {
		t.Fatalf("opened %q, %v", plain, err)
	}
	for _, c := range []struct {
		name, user, path string
		t                workload.Type
	}{
		{"another user", other, "password", workload.TypeZDB},
		{"another type", user, "password", workload.TypeKubernetes},
		{"another field", user, "secret_env.P", workload.TypeZDB},
		{"no field", user, "", workload.TypeZDB},
		{"a longer user", user + "z", "dbpassword", ""},
	} {
		_, err := workload.OpenSecret(node.Open, c.user, c.t, c.path, sealed)
		wantError(t, c.name, err, "made for another user, type or field")
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: the error holds the secret", c.name)
		}
	}
	_, err = workload.OpenSecret(testKey(t, "node2").Open, user, workload.TypeZDB, "password", sealed)
	wantError(t, "another node", err, "wasn't made for this key")
	_, err = workload.OpenSecretV1(node.Open, sealed)
	wantError(t, "as version 1", err, "bound to a version 2 reservation")
}

func TestSecretsThatAreBroken(t *testing.T) {
	node, user := testKey(t, "node1"), testKey(t, "user").ID()
	// The boxes' content: LP(user) LP(zdb) LP(password) and then not a secret.
	binding := "croft-secret-v2\x00\x00\x00\x00\x2c" + user + "\x00\x00\x00\x03zdb\x00\x00\x00\x08password"
	for name, c := range map[string]struct{ plain, want string }{
		"no secret":        {binding, "its length is wrong"},
		"half a length":    {binding + "\x00\x00", "its length is wrong"},
		"too little":       {binding + "\x00\x00\x00\x02a", "its length is wrong"},
		"too much":         {binding + "\x00\x00\x00\x01ab", "its length is wrong"},
		"a huge length":    {binding + "\xff\xff\xff\xffa", "its length is wrong"},
		"a domain alone":   {"croft-secret-v2\x00", "made for another"},
		"no zero byte":     {"croft-secret-v2", "isn't bound"},
		"another domain":   {strings.Replace(binding, "v2", "v3", 1) + "\x00\x00\x00\x01a", "isn't bound"},
		"nothing":          {"", "isn't bound"},
		"a plain password": {"s3cr3t", "isn't bound"},
	} {
		box, err := sign.Seal(node.ID(), []byte(c.plain))
		if err != nil {
			t.Fatal(err)
		}
		_, err = workload.OpenSecret(node.Open, user, workload.TypeZDB, "password", hex.EncodeToString(box))
		wantError(t, name, err, "cannot open secret password", c.want)
	}
}

func TestSecretLimits(t *testing.T) {
	node, user := testKey(t, "node1"), testKey(t, "user").ID()
	_, err := workload.SealSecret(node.ID(), user, workload.TypeZDB, "password", make([]byte, workload.MaxSecret+1))
	wantError(t, "long", err, "at most 65536 are allowed")
	_, err = workload.SealSecret("nobody", user, workload.TypeZDB, "password", nil)
	wantError(t, "nobody", err, "cannot seal secret password")
	failing := errors.New("the bus is away")
	_, err = workload.OpenSecret(func([]byte) ([]byte, error) { return nil, failing }, user, workload.TypeZDB, "password", strings.Repeat("00", 48))
	if !errors.Is(err, failing) {
		t.Errorf("the cause is lost: %v", err)
	}
	asked := false
	_, err = workload.OpenSecret(func([]byte) ([]byte, error) { asked = true; return nil, nil }, user, workload.TypeZDB, "password", strings.Repeat("00", 47))
	if wantError(t, "short", err, "47 bytes, must have at least 48"); asked {
		t.Error("the key was asked about a box that can't be one")
	}
}

func TestSecretsBothWays(t *testing.T) {
	node := testKey(t, "node1")
	rapid.Check(t, func(t *rapid.T) {
		user, path := rapid.String().Draw(t, "user"), rapid.String().Draw(t, "path")
		kind := rapid.SampledFrom(workload.Types()).Draw(t, "type")
		secret := rapid.SliceOf(rapid.Byte()).Draw(t, "secret")
		sealed, err := workload.SealSecret(node.ID(), user, kind, path, secret)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := workload.OpenSecret(node.Open, user, kind, path, sealed)
		if err != nil || string(plain) != string(secret) {
			t.Fatalf("opened %x, %v", plain, err)
		}
		otherUser, otherPath := rapid.String().Draw(t, "other user"), rapid.String().Draw(t, "other path")
		_, err = workload.OpenSecret(node.Open, otherUser, kind, otherPath, sealed)
		if same := otherUser == user && otherPath == path; same != (err == nil) {
			t.Fatalf("bound to %q %q, opened as %q %q: %v", user, path, otherUser, otherPath, err)
		}
	})
}
