package imagebuild

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func newRoot(t *testing.T) RootFolder {
	t.Helper()
	r, err := MakeRootFolder(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What is in the root folder has the modes that were asked for, under any umask, and nothing is replaced.
func TestRootFolder(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	r := newRoot(t)
	for at, mode := range map[string]fs.FileMode{"/a/b/c": 0o700, "/a/b": 0o755, "/tmp": fs.ModeSticky | 0o777} {
		if err := r.Folder(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.File("/sbin/init", "program", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.Copy("/etc/x", "/etc/passwd"); err != nil {
		t.Fatal(err)
	}
	if err := r.Link("/bin/sh", "/sbin/init"); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]fs.FileMode{
		"a": fs.ModeDir | 0o755, "a/b": fs.ModeDir | 0o755, "a/b/c": fs.ModeDir | 0o700, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, ".": fs.ModeDir | 0o755,
		"usr": fs.ModeDir | 0o755, "usr/sbin/init": 0o755, "etc/x": 0o644, "etc": fs.ModeDir | 0o755, "bin": fs.ModeSymlink | 0o777,
	} {
		info, err := os.Lstat(filepath.Join(string(r), at))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", at, info.Mode(), err, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(string(r), "usr/bin/sh")); err != nil || target != "../sbin/init" {
		t.Errorf("the link leads to %s, %v", target, err)
	}
	if read(t, filepath.Join(string(r), "bin/sh")) != "program" {
		t.Error("the link leads elsewhere")
	}
	for what, err := range map[string]error{
		"a file over a file": r.File("/usr/sbin/init", "", 0o644), "a file over a link": r.File("/bin/sh", "", 0o644), "a link over a file": r.Link("/sbin/init", "/x"),
		"a folder over a file": r.Folder("/sbin/init", 0o755), "a file below a file": r.File("/sbin/init/x", "", 0o644), "a copy of a folder": r.Copy("/y", "/etc"),
	} {
		if err == nil {
			t.Errorf("%s is made", what)
		}
	}
	if read(t, r.At("/sbin/init")) != "program" {
		t.Error("the file was replaced")
	}
}

// Links of busybox are made in the folders that it names, but never for the name of a program that the image has.
func TestApplets(t *testing.T) {
	r := newRoot(t)
	for _, at := range []string{Busybox, "/sbin/mke2fs", "/sbin/init", "/usr/bin/ip"} {
		if err := r.File(at, "program", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	list := "bin/busybox\nbin/sh\nlinuxrc\nsbin/init\nsbin/ip\nsbin/mke2fs\nsbin/modprobe\nusr/bin/awk\nusr/bin/[\n"
	lister := func(_ context.Context, _, name string, args ...string) ([]byte, error) {
		if name != r.At(Busybox) || strings.Join(args, " ") != "--list-full" {
			t.Errorf("%s %v runs", name, args)
		}
		return []byte(list), nil
	}
	if err := LinkApplets(t.Context(), r, lister); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"usr/bin/sh": "busybox", "usr/bin/awk": "busybox", "usr/bin/[": "busybox", "usr/sbin/modprobe": "../bin/busybox"} {
		if target, err := os.Readlink(filepath.Join(string(r), at)); err != nil || target != want {
			t.Errorf("%s leads to %q, %v, want %s", at, target, err, want)
		}
	}
	for _, at := range []string{"linuxrc", "usr/sbin/ip"} {
		if r.Has(at) {
			t.Errorf("%s is there", at)
		}
	}
	for _, at := range []string{"/sbin/init", "/sbin/mke2fs", "/usr/bin/ip", Busybox} {
		if info, err := os.Lstat(r.At(at)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s was replaced, %v", at, err)
		}
	}
	list = "bin/sh\n"
	if err := LinkApplets(t.Context(), newRoot(t), func(context.Context, string, string, ...string) ([]byte, error) { return []byte(list), nil }); err == nil {
		t.Error("a busybox without modprobe is taken")
	}
}
