// Package conformance is the suite that every provider of secrets that reads a folder must pass.
// It knows providers by their contract only. It needs root.
package conformance

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// World is a provider whose folder the suite fills.
type World struct {
	// Dir is the provider's folder, which is empty.
	Dir string
	// Open makes the provider anew, on the same folder.
	Open func() secret.Provider
	// Modes are those that a secret's file may have, the first of them usually has; Refused are some that it may not have.
	Modes, Refused []os.FileMode
}

const (
	// content is what no error may show. It is at a file's beginning, where a careless message would quote it.
	content = "correct-horse-battery-staple"
	// patience is the longest time that a call may take on a busy machine.
	patience = time.Minute
	// longest is how long an error may be.
	longest = 600
)

// Run runs the suite. Each test has a world of its own.
func Run(t *testing.T, open func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, w *world)
	}{
		{"get", get},
		{"twice, replaced, and removed", replaced},
		{"what isn't there", missing},
		{"names", names},
		{"sizes", sizes},
		{"modes", modes},
		{"another user's", anothers},
		{"links", links},
		{"what isn't a file", notFiles},
		{"a refused one's neighbours", neighbours},
		{"from many goroutines", goroutines},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t)
			c.test(t, &world{World: w, t: t, provider: w.Open()})
		})
	}
}

// world is a World with its provider.
type world struct {
	World
	t        *testing.T
	provider secret.Provider
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.Dir, name) }

// put replaces a secret's file by another one.
func (w *world) put(name string, text []byte, mode os.FileMode) {
	w.t.Helper()
	if err := os.Remove(w.path(name)); !errors.Is(err, os.ErrNotExist) {
		w.must(err)
	}
	w.must(os.WriteFile(w.path(name), text, 0o600))
	w.must(os.Chmod(w.path(name), mode)) // whatever the process's mask is
}

// ask asks for a secret. The test fails when that hangs.
func (w *world) ask(name string) (secret.Value, error) {
	w.t.Helper()
	type answer struct {
		value secret.Value
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		v, err := w.provider.Secret(name)
		got <- answer{v, err}
	}()
	select {
	case a := <-got:
		return a.value, a.err
	case <-time.After(patience):
		w.t.Fatalf("to get %q takes over %s", name, patience)
		return secret.Value{}, nil
	}
}

func (w *world) want(name, text string) {
	w.t.Helper()
	if v, err := w.ask(name); err != nil || v.Text() != text || v.IsZero() {
		w.t.Errorf("%s has %d bytes, %v; want %d", name, len(v.Text()), err, len(text))
	}
}

// wantError checks that a secret isn't given, and what is said of it: the kind, these texts, nothing of any content, and not too much.
func (w *world) wantError(name string, kind node.Kind, says ...string) {
	w.t.Helper()
	v, err := w.ask(name)
	if err == nil || !v.IsZero() {
		w.t.Errorf("%.50q is given, with %d bytes and %v; want %s", name, len(v.Text()), err, kind)
		return
	}
	text := err.Error()
	if got := node.KindOf(err); got != kind {
		w.t.Errorf("%.50q: %v of kind %s, want %s", name, err, got, kind)
	}
	if !strings.HasPrefix(text, "cannot get secret ") {
		w.t.Errorf("%q doesn't begin with what can't be done", text)
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			w.t.Errorf("%q doesn't say %q", text, s)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if shown := fmt.Sprintf(verb, err); strings.Contains(shown, content) {
			w.t.Errorf("the error about %s shows, by %s, what is in the file", name, verb)
		}
	}
	if len(text) > longest {
		w.t.Errorf("an error has %d bytes", len(text))
	}
}

func get(t *testing.T, w *world) {
	for name, text := range map[string][2]string{
		"plain": {content, content}, "line": {content + "\n", content}, "lines": {content + "\n\n", content + "\n"}, "s3-access": {" a\tb ", " a\tb "},
		"bytes": {"\x00\xff\xfe\r", "\x00\xff\xfe\r"}, "A_1.b": {"x", "x"}, strings.Repeat("n", 100): {"long name", "long name"},
	} {
		w.put(name, []byte(text[0]), w.Modes[0])
		w.want(name, text[1])
		if v, err := w.ask(name); err != nil || string(v.Reveal()) != text[0] {
			t.Errorf("%s isn't given as it is: %v", name, err)
		}
	}
}

// replaced tests that a secret is read anew each time, also by a provider that was made before.
func replaced(_ *testing.T, w *world) {
	for range 2 {
		for _, text := range []string{content, "other"} {
			w.put("a", []byte(text), w.Modes[0])
			w.want("a", text)
			w.want("a", text)
		}
		w.must(os.Remove(w.path("a")))
		w.wantError("a", node.NotExist, `"a"`)
	}
	w.put("a", []byte(content), w.Modes[0])
	w.provider = w.Open()
	w.want("a", content)
}

func missing(_ *testing.T, w *world) {
	w.put("other", []byte(content), w.Modes[0])
	for range 2 {
		w.wantError("none", node.NotExist, `"none"`, "there is none of that name")
	}
	w.want("other", content)
	w.must(os.Remove(w.path("other")))
	w.must(os.Remove(w.Dir))
	w.wantError("other", node.NotExist, `"other"`, "there is none of that name")
	w.wantError("other", node.NotExist)
}

// names tests that no name reaches a file outside the folder, or a hidden one.
func names(_ *testing.T, w *world) {
	w.put(".hidden", []byte(content), w.Modes[0])
	w.must(os.Mkdir(w.path("below"), 0o700))
	w.put("below/a", []byte(content), w.Modes[0])
	base := filepath.Base(w.Dir)
	for _, name := range []string{
		"", ".", "..", ".hidden", "/", "below/a", "./below", "../" + base + "/below/a", "/etc/shadow", w.path("below/a"), "a b", "a\x00", "a\n", "-ä", "*", `\`, "a/",
		strings.Repeat("n", 101), strings.Repeat("n", 1<<20),
	} {
		w.wantError(name, node.Invalid, "a name has 1 to 100 of ")
	}
}

// sizes tests that a secret has 1 to MaxSecret bytes, and that a huge file costs no memory.
func sizes(t *testing.T, w *world) {
	full := append([]byte(content), bytes.Repeat([]byte("x"), secret.MaxSecret-len(content))...)
	w.put("full", full, w.Modes[0])
	w.want("full", string(full))
	allowed := fmt.Sprintf("must have 1 to %d bytes", secret.MaxSecret)
	w.put("long", append(full, 'x'), w.Modes[0])
	w.wantError("long", node.Invalid, `"long"`, w.path("long"), allowed)
	w.put("empty", nil, w.Modes[0])
	w.wantError("empty", node.Invalid, `"empty"`, w.path("empty"), allowed)
	w.put("huge", []byte(content), 0o600)
	w.must(os.Truncate(w.path("huge"), 1<<40))
	w.must(os.Chmod(w.path("huge"), w.Modes[0]))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.wantError("huge", node.Invalid, `"huge"`, w.path("huge"), allowed)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64*secret.MaxSecret {
		t.Errorf("to refuse a file of a terabyte takes %d bytes of memory", used)
	}
}

// modes tests that an error about a mode names the file, the mode, and what is allowed.
func modes(_ *testing.T, w *world) {
	for _, mode := range w.Modes {
		w.put("a", []byte(content), mode)
		w.want("a", content)
	}
	for _, mode := range w.Refused {
		w.put("a", []byte(content), mode)
		bits := uint32(mode.Perm())
		for flag, bit := range map[os.FileMode]uint32{os.ModeSetuid: unix.S_ISUID, os.ModeSetgid: unix.S_ISGID, os.ModeSticky: unix.S_ISVTX} {
			if mode&flag != 0 {
				bits |= bit
			}
		}
		w.wantError("a", node.Refused, `"a"`, w.path("a"), fmt.Sprintf("%04o", bits), "must be 0400 or stricter", "chmod 400 "+w.path("a"))
	}
}

func anothers(_ *testing.T, w *world) {
	const user, group = 12345, 54321
	w.put("theirs", []byte(content), w.Modes[0])
	w.must(os.Chown(w.path("theirs"), user, 0))
	w.wantError("theirs", node.Refused, `"theirs"`, w.path("theirs"), fmt.Sprint("user ", user), "must be root's")
	w.put("group", []byte(content), w.Modes[0])
	w.must(os.Chown(w.path("group"), 0, group))
	w.want("group", content)
}

// links tests that a link is refused, wherever it leads: whoever can write there could replace the secret.
func links(t *testing.T, w *world) {
	w.put("target", []byte(content), w.Modes[0])
	elsewhere := filepath.Join(t.TempDir(), "file")
	w.must(os.WriteFile(elsewhere, []byte(content), 0o400))
	for name, to := range map[string]string{"near": "target", "far": elsewhere, "dangling": "nowhere", "circle": "circle", "folder": ".", "device": "/dev/zero"} {
		w.must(os.Symlink(to, w.path(name)))
		w.wantError(name, node.Refused, fmt.Sprintf("%q", name), w.path(name), "is a link")
	}
	w.want("target", content)
}

// notFiles tests that only regular files are read, and that nothing else makes a call hang: also what has somebody at its other end.
func notFiles(t *testing.T, w *world) {
	w.must(os.Mkdir(w.path("folder"), 0o500))
	w.must(unix.Mkfifo(w.path("fifo"), uint32(w.Modes[0])))
	w.must(unix.Mkfifo(w.path("written"), uint32(w.Modes[0])))
	writer, err := os.OpenFile(w.path("written"), os.O_RDWR, 0)
	w.must(err)
	t.Cleanup(func() { _ = writer.Close() })
	_, err = writer.WriteString(content)
	w.must(err)
	// A socket's path may be too long for its address: it is bound elsewhere.
	short, err := os.MkdirTemp("", "croft-")
	w.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(short, "s"))
	w.must(err)
	t.Cleanup(func() { _ = listener.Close() })
	w.must(os.Chmod(filepath.Join(short, "s"), w.Modes[0]))
	w.must(os.Rename(filepath.Join(short, "s"), w.path("socket")))
	w.must(unix.Mknod(w.path("zero"), unix.S_IFCHR|uint32(w.Modes[0]), int(unix.Mkdev(1, 5))))
	for _, name := range []string{"folder", "fifo", "written", "socket", "zero"} {
		w.wantError(name, node.Refused, fmt.Sprintf("%q", name), w.path(name), "isn't a regular file")
	}
	w.must(writer.SetReadDeadline(time.Now().Add(patience)))
	left := make([]byte, 2*len(content))
	if n, err := writer.Read(left); string(left[:n]) != content {
		t.Errorf("of what was in the FIFO %d bytes are left (%v): it was read", n, err)
	}
}

// neighbours tests that what is wrong with one secret is nothing to the others.
func neighbours(_ *testing.T, w *world) {
	w.put("good", []byte(content), w.Modes[0])
	w.put("empty", nil, w.Modes[0])
	w.must(os.Symlink("good", w.path("link")))
	w.must(unix.Mkfifo(w.path("fifo"), 0o400))
	for _, bad := range []string{"empty", "link", "fifo", "none", "."} {
		if _, err := w.ask(bad); err == nil {
			w.t.Errorf("%s is given", bad)
		}
		w.want("good", content)
	}
}

func goroutines(t *testing.T, w *world) {
	w.put("good", []byte(content), w.Modes[0])
	w.put("empty", nil, w.Modes[0])
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 20 {
				if v, err := w.provider.Secret("good"); err != nil || v.Text() != content {
					t.Errorf("%d bytes, %v", len(v.Text()), err)
				}
				if _, err := w.provider.Secret("empty"); node.KindOf(err) != node.Invalid {
					t.Errorf("%v of kind %s", err, node.KindOf(err))
				}
			}
		})
	}
	wait.Wait()
}
