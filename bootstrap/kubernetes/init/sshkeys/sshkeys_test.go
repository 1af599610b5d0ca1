package sshkeys_test

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/sshkeys"
)

// key is a public key's line without a comment; seed makes it.
func key(t *testing.T, seed byte) string {
	t.Helper()
	private := ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func TestParse(t *testing.T) {
	good := key(t, 1)
	for _, line := range []string{good, "  " + good + " me@home\r", good + " command=\"x\""} {
		if got := sshkeys.Parse([]string{line}); !slices.Equal(got, []string{good}) {
			t.Errorf("%q becomes %q", line, got)
		}
	}
	for _, line := range []string{"", "# " + good, `command="/bin/sh" ` + good, "no-pty " + good, "ssh-ed25519 AAAA", good[:len(good)-4], "ssh-rsa " + strings.Fields(good)[1]} {
		if got := sshkeys.Parse([]string{line}); len(got) != 0 {
			t.Errorf("%q becomes %q", line, got)
		}
	}
	if got := sshkeys.Parse(slices.Repeat([]string{good}, 100)); len(got) != 64 {
		t.Errorf("%d keys are taken", len(got))
	}
}

// TestAccounts follows an account whose keys change, while it can't always be reached.
func TestAccounts(t *testing.T) {
	status, body := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/me.keys" {
			t.Errorf("%s is asked for", r.URL.Path)
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	defer server.Close()
	dir := t.TempDir()
	given, first, second := key(t, 1), key(t, 2), key(t, 3)
	for _, step := range []struct {
		name   string
		status int
		body   string
		failed bool
		want   []string
	}{
		{"never reached", 500, "", true, []string{given}},
		{"one key", 200, first + " comment\n", false, []string{given, first}},
		{"not reached", 503, "", true, []string{given, first}},
		{"gone", 404, "Not Found", true, []string{given, first}},
		{"a page", 200, "<html>" + strings.Repeat("x", 64<<10), true, []string{given, first}},
		{"another key, and the given one", 200, second + "\n" + given + "\nrubbish\n", false, []string{given, second}},
		{"no key", 200, "", false, []string{given}},
	} {
		status, body = step.status, step.body
		// A store that is opened anew, as after a boot, has the same keys.
		s := sshkeys.Open(dir, server.URL, server.Client())
		if err := s.Fetch(context.Background(), "me"); (err != nil) != step.failed {
			t.Errorf("%s: the error is %v", step.name, err)
		}
		got, err := s.Keys([]string{given}, []string{"me", "nobody"})
		slices.Sort(step.want)
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("%s: the keys are %q, want %q: %v", step.name, got, step.want, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder has %v", entries)
	}
}
