package imagebuild

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestPlace(t *testing.T) {
	for name, want := range map[string]string{
		"/bin/sh": "usr/bin/sh", "sbin/init": "usr/sbin/init", "/lib64/ld.so": "usr/lib64/ld.so", "/lib/../etc/x": "etc/x", "/usr/bin/sh": "usr/bin/sh",
		"/libexec/x": "libexec/x", "/etc/passwd": "etc/passwd", "../../bin": "usr/bin",
	} {
		if got := Place(name); got != want {
			t.Errorf("the place of %s is %s, want %s", name, got, want)
		}
	}
}

// thisMachine is this machine's root file system as one package.
func thisMachine() []Package { return []Package{{Name: "this machine", Dir: "/"}} }

// Programs run in a root folder that has only their closure, and don't when one library is missing.
func TestClosureRuns(t *testing.T) {
	files, err := Closure(thisMachine(), []string{"/bin/sh", "/usr/sbin/nft"})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	for _, want := range []string{"usr/bin/sh", "usr/sbin/nft", "usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libnftnl.so.11"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s isn't among %v", want, paths)
		}
	}
	if !slices.IsSorted(paths) {
		t.Errorf("the order is %v", paths)
	}
	r := rootOf(t, files)
	if err := CheckPrograms(r); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "nft --version && echo $((6*7))")
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(r)}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "nftables v") || !strings.HasSuffix(string(out), "42\n") {
		t.Errorf("it prints %q, %v", out, err)
	}
	if err := os.Remove(r.At("/usr/lib/x86_64-linux-gnu/libnftnl.so.11")); err != nil {
		t.Fatal(err)
	}
	if err := CheckPrograms(r); err == nil || !strings.Contains(err.Error(), "no package has the library libnftnl.so.11") {
		t.Errorf("a missing library: %v", err)
	}
}

// rootOf copies files into a root folder.
func rootOf(t *testing.T, files []File) RootFolder {
	t.Helper()
	r, err := MakeRootFolder(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Target != "" {
			err = r.Link(f.Path, f.Target)
		} else {
			err = r.Copy(f.Path, f.From)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Packages are searched in their order, in both forms of their paths; links are followed across packages.
func TestFind(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "lib/libone.so.1.2"), "one")
	symlink(t, "libone.so.1.2", filepath.Join(first, "lib/libone.so.1"))
	write(t, filepath.Join(second, "usr/lib/libone.so.1.2"), "another")
	write(t, filepath.Join(second, "usr/bin/tool"), "a script")
	symlink(t, "/lib/libone.so.1", filepath.Join(second, "usr/bin/link"))
	packages := []Package{{Name: "first", Dir: first}, {Name: "second", Dir: second}}
	files, err := Closure(packages, []string{"/bin/link", "/usr/bin/tool"})
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Path: "usr/bin/link", From: filepath.Join(second, "usr/bin/link"), Owner: "second", Target: "usr/lib/libone.so.1"},
		{Path: "usr/bin/tool", From: filepath.Join(second, "usr/bin/tool"), Owner: "second"},
		{Path: "usr/lib/libone.so.1", From: filepath.Join(first, "lib/libone.so.1"), Owner: "first", Target: "usr/lib/libone.so.1.2"},
		{Path: "usr/lib/libone.so.1.2", From: filepath.Join(first, "lib/libone.so.1.2"), Owner: "first"},
	}
	if !slices.Equal(files, want) {
		t.Errorf("it is %+v, want %+v", files, want)
	}
	symlink(t, "nowhere", filepath.Join(first, "lib/broken"))
	for _, path := range []string{"/usr/bin/none", "/lib/broken", "/usr/bin"} {
		if _, err := Closure(packages, []string{path}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A program for another machine, or a damaged one, is refused rather than taken for a script.
func TestForeignPrograms(t *testing.T) {
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(b []byte) []byte
		says   string
	}{
		"of aarch64": {func(b []byte) []byte { b[18], b[19] = 183, 0; return b }, "it is for EM_AARCH64"},
		"cut":        {func(b []byte) []byte { return b[:40] }, "cannot read what"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "usr/bin/true"), string(tt.change(slices.Clone(program))))
			if _, err := Closure([]Package{{Name: "p", Dir: dir}}, []string{"/bin/true"}); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
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

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Files and links of all packages below a folder are found once, with and without /usr.
func TestBelow(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "lib/x/a"), "")
	write(t, filepath.Join(second, "usr/lib/x/a"), "")
	write(t, filepath.Join(second, "usr/lib/x/y/c"), "")
	symlink(t, "c", filepath.Join(second, "usr/lib/x/y/b"))
	got, err := Below([]Package{{Dir: first}, {Dir: second}}, "/lib/x")
	if want := []string{"/usr/lib/x/a", "/usr/lib/x/y/b", "/usr/lib/x/y/c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("they are %v, %v, want %v", got, err, want)
	}
	if got, err := Below([]Package{{Dir: first}}, "/lib/none"); err == nil {
		t.Errorf("of nothing they are %v", got)
	}
}
