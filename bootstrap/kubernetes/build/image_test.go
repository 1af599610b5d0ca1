package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/vmimage"
)

// A build that fails leaves the image that was there, and nothing of its own, nor of one that was killed.
func TestFailedBuild(t *testing.T) {
	cache, out := t.TempDir(), t.TempDir()
	if err := publish(stagedImage(t, out, "1", map[string]string{"vmlinuz": "k1", "initrd": "i1", "root.squashfs": "r1"}), out); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{cache, out, filepath.Join(cache, "packages"), filepath.Join(cache, "squashfs")} {
		write(t, filepath.Join(dir, temporary+"1", "x"), "")
	}
	c := config{source: ".", out: out, parts: t.TempDir(), cache: cache, version: "dev"}
	c.run = func(context.Context, string, string, ...string) ([]byte, error) {
		return nil, errors.New("cannot reach the archive")
	}
	if err := build(t.Context(), c, newProgress(io.Discard)); err == nil || !strings.Contains(err.Error(), "cannot reach the archive") {
		t.Errorf("%v", err)
	}
	if i, err := vmimage.Open(out).Read(t.Context()); err != nil || i.Version != "1" {
		t.Errorf("%+v, %v", i, err)
	}
	for _, dir := range []string{cache, out, filepath.Join(cache, "packages"), filepath.Join(cache, "squashfs")} {
		if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) > 0 {
			t.Errorf("there is %v, %v", names, err)
		}
	}
}

// Commands don't see what makes them write other bytes, and their errors say what they printed.
func TestRun(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	out, err := run(t.Context(), "/", "sh", "-c", "pwd; echo $LC_ALL $SOURCE_DATE_EPOCH; echo problem >&2")
	if err != nil || string(out) != "/\nC\n" {
		t.Errorf("it prints %q, %v", out, err)
	}
	if _, err := run(t.Context(), "", "sh", "-c", "echo problem >&2; exit 3"); err == nil || !strings.HasSuffix(err.Error(), ": exit status 3: problem") {
		t.Errorf("%v", err)
	}
}

// The image takes packages of Debian only, whose release is this machine's.
func TestRelease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "os-release")
	for text, want := range map[string]string{"ID=debian\nVERSION_ID=\"12\"\n": "12", "ID=ubuntu\nVERSION_ID=\"24.04\"\n": "", "ID=debian\n": ""} {
		write(t, file, text)
		if got, err := debianRelease(file); got != want || (err == nil) != (want != "") {
			t.Errorf("of %q it is %q, %v", text, got, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := debianRelease(file); err == nil {
		t.Error("a machine without os-release has a release")
	}
}
