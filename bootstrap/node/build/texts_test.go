package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// Nobody can log in, and each user has a group.
func TestAccounts(t *testing.T) {
	groups := map[string]bool{}
	for line := range strings.Lines(group) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 4 || groups[f[2]] {
			t.Fatalf("the line %q of /etc/group", line)
		}
		groups[f[2]] = true
	}
	users := map[string]bool{}
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 7 || users[f[2]] || !groups[f[3]] || f[1] != "*" {
			t.Fatalf("the line %q of /etc/passwd", line)
		}
		users[f[2]] = true
	}
	if !users["0"] {
		t.Error("there is no root")
	}
}

func TestTexts(t *testing.T) {
	r, err := imagebuild.MakeRootFolder(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTexts(r, osRelease("v1.2.3", 1_700_000_000)); err != nil {
		t.Fatal(err)
	}
	have, err := imagebuild.ReadVariables(r.At("/etc/os-release"))
	if err != nil || have["ID"] != "croft" || have["VERSION_ID"] != "v1.2.3" || have["BUILT"] != "1700000000" {
		t.Errorf("os-release has %v, %v", have, err)
	}
	for at, want := range map[string]string{"/etc/resolv.conf": "../run/resolv.conf", "/etc/croft": "../run/config", "/var/run": "../run", "/etc/mtab": "../proc/self/mounts"} {
		if target, err := os.Readlink(r.At(at)); err != nil || target != want {
			t.Errorf("%s leads to %q, %v, want %s", at, target, err, want)
		}
	}
	for _, at := range []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/boot", "/mnt", "/state", "/var/lib/croft", "/var/lib/containerd", "/var/lib/init", "/var/log", "/root"} {
		if info, err := os.Stat(r.At(at)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestIncludes holds that a file that AppArmor's parser would miss is found when the image is built.
func TestIncludes(t *testing.T) {
	r, err := imagebuild.MakeRootFolder(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	text := "include if exists <none>\n#include <tunables/home>\n  include <tunables/dirs.d>\n"
	if err := r.File("/etc/apparmor.d/tunables/global", text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.File("/etc/apparmor.d/tunables/home", "", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkIncludes(r); err == nil || !strings.Contains(err.Error(), "tunables/dirs.d") {
		t.Errorf("%v, want that the folder is missing", err)
	}
	if err := r.Folder("/etc/apparmor.d/tunables/dirs.d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkIncludes(r); err != nil {
		t.Error(err)
	}
}
