package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/vmihailenco/msgpack"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/secret"
	"github.com/croft-edge/croft/provision/persist/secret/conformance"
)

const text = "correct horse"

// Nothing that prints or encodes a value, or what it is in, shows it.
func TestValuesHide(t *testing.T) {
	type settings struct {
		Name   string
		Key    secret.Value
		Pinned *secret.Value
		Any    any
		Many   []secret.Value
		ByName map[string]secret.Value
		hidden secret.Value
		inner  struct{ pinned *secret.Value }
	}
	v := secret.New([]byte(text))
	s := settings{Name: "seen", Key: v, Pinned: &v, Any: v, Many: []secret.Value{v}, ByName: map[string]secret.Value{"a": v}, hidden: v}
	s.inner.pinned = &v
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10.3s", "%p", "%t", "%e", "%c", "%U", "%b", "%o", "%w"} {
		for _, x := range []any{v, &v, s, &s, []secret.Value{v}} {
			fmt.Fprintf(&out, verb+"\n", x)
		}
	}
	fmt.Fprintln(&out, v, s, v.String(), v.GoString())
	encode := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	encode("json", json.NewEncoder(&out).Encode(s))
	encode("yaml", yaml.NewEncoder(&out).Encode(s))
	encode("xml", xml.NewEncoder(&out).Encode(v))
	encode("gob", gob.NewEncoder(&out).Encode(v))
	encode("msgpack", msgpack.NewEncoder(&out).Encode(v))
	log := zerolog.New(&out)
	log.Info().Interface("i", s).Any("a", v).Object("o", v).Stringer("s", v).Str("f", fmt.Sprint(v)).Msgf("%v", v)
	log.Err(node.Errorf(node.Refused, "cannot use %v of %v", v, s)).Msg("")
	plain := strings.ToLower(out.String())
	for _, form := range []string{text, fmt.Sprintf("%x", text), "horse", strings.Trim(fmt.Sprintf("%d", []byte(text)), "[]"), "y29ycmvjd" /* base64, in lower case */} {
		if strings.Contains(plain, form) {
			t.Errorf("%q is shown: %s", form, out.String())
		}
	}
	if !strings.Contains(plain, "***") || !strings.Contains(plain, "seen") {
		t.Error("nothing was printed: the test looks at the wrong thing")
	}
	if string(v.Reveal()) != text || v.Text() != text || v.IsZero() || !(secret.Value{}).IsZero() {
		t.Error("the secret is lost")
	}
	if got := secret.New([]byte("a\n\n")).Text(); got != "a\n" {
		t.Errorf("%q", got)
	}
	if !v.Equal(secret.New([]byte(text))) || v.Equal(secret.Value{}) {
		t.Error("Equal is wrong")
	}
}

// A value is its own: who changes what it was made of, or what it gave, doesn't change it.
func TestValuesAreCopies(t *testing.T) {
	b := []byte(text)
	v := secret.New(b)
	b[0] = 'x'
	v.Reveal()[1] = 'x'
	if v.Text() != text {
		t.Error(v.Text())
	}
}

func put(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantKind(t *testing.T, what string, err error, kind node.Kind, says string) {
	t.Helper()
	if node.KindOf(err) != kind || err != nil && (!strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "cannot get secret") || strings.Contains(err.Error(), text)) {
		t.Errorf("%s: %v (%s), want %s: %q", what, err, node.KindOf(err), kind, says)
	}
}

func TestFolder(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.World {
		t.Helper()
		dir := t.TempDir()
		return conformance.World{
			Dir: dir, Open: func() secret.Provider { return secret.Folder(dir) }, Modes: []os.FileMode{0o400, 0o000},
			Refused: []os.FileMode{0o600, 0o440, 0o404, 0o500, 0o444, 0o644, 0o777, 0o400 | os.ModeSetuid, 0o400 | os.ModeSetgid, 0o400 | os.ModeSticky},
		}
	})
}

// A file of two names may be where others can replace it.
func TestTwoNames(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "hard"), 0o400)
	if err := os.Link(filepath.Join(dir, "hard"), filepath.Join(dir, "hard2")); err != nil {
		t.Fatal(err)
	}
	_, err := secret.Folder(dir).Secret("hard")
	wantKind(t, "two names", err, node.Refused, "has 2 names")
}

// A folder to which others can add files is as good as theirs.
func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), 0o400)
	for _, mode := range []os.FileMode{0o777, 0o720, 0o702} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		_, err := secret.Folder(dir).Secret("a")
		wantKind(t, fmt.Sprintf("%04o", mode), err, node.Refused, "nobody else may write")
	}
	_, err := secret.Folder(dir + "/none").Secret("a")
	wantKind(t, "no folder", err, node.NotExist, "there is none")
	_, err = secret.Folder("").Secret("a")
	wantKind(t, "no path", err, node.NotExist, "there is none")
}

// systemd hands over credentials with modes of its own.
func TestCredentials(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.World {
		t.Helper()
		dir := t.TempDir()
		return conformance.World{Dir: dir, Open: func() secret.Provider { return secret.Credentials(dir) }, Modes: []os.FileMode{0o440, 0o400, 0o000}}
	})
	_, err := secret.Credentials("").Secret("a")
	wantKind(t, "no systemd", err, node.NotExist, "there is none")
}

// Asked one after the other, providers are as one of them.
func TestFirstIsAProvider(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.World {
		t.Helper()
		dir, other := t.TempDir(), t.TempDir()
		return conformance.World{
			Dir: dir, Modes: []os.FileMode{0o400}, Refused: []os.FileMode{0o644},
			Open: func() secret.Provider {
				return secret.First(secret.Credentials(""), secret.Credentials(other), secret.Folder(dir), secret.Folder(other))
			},
		}
	})
}

// The first that has a secret gives it, and one that is refused is looked for nowhere else.
func TestFirst(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	put(t, filepath.Join(other, "a"), 0o400)
	put(t, filepath.Join(one, "b"), 0o644)
	put(t, filepath.Join(other, "b"), 0o400)
	p := secret.First(secret.Credentials(""), secret.Folder(one), secret.Folder(other))
	if v, err := p.Secret("a"); err != nil || v.Text() != text {
		t.Errorf("%q, %v", v.Text(), err)
	}
	_, err := p.Secret("b")
	wantKind(t, "refused first", err, node.Refused, "chmod 400")
	_, err = p.Secret("c")
	wantKind(t, "none", err, node.NotExist, "there is none")
}

// Unprivileged processes aren't given what root's files hide.
func TestNotRoot(t *testing.T) {
	if os.Getenv("CROFT_SECRET_DIR") != "" {
		_, err := secret.Folder(os.Getenv("CROFT_SECRET_DIR")).Secret("a")
		wantKind(t, "as a user", err, node.Refused, "permission denied")
		return
	}
	dir, err := os.MkdirTemp("/tmp", "croft-secret-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "a"), 0o400)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "program")
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), copied, "-test.run=^TestNotRoot$", "-test.v")
	c.Env = append(os.Environ(), "CROFT_SECRET_DIR="+dir)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestNotRoot") {
		t.Errorf("%v: %s", err, out)
	}
}
