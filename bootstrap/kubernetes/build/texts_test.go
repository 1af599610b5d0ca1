package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// The accounts are whole: root may log in by its key, as its shell is one, and nobody else can.
func TestAccounts(t *testing.T) {
	groups := map[string]bool{}
	for line := range strings.Lines(group) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 4 || groups[f[2]] {
			t.Errorf("the line %q of /etc/group", line)
			continue
		}
		groups[f[2]] = true
	}
	users := map[string]bool{}
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 7 || users[f[2]] || !groups[f[3]] || f[1] != "*" {
			t.Errorf("the line %q of /etc/passwd", line)
			continue
		}
		users[f[2]] = true
		if login := slices.Contains(strings.Fields(shells), f[6]); login != (f[0] == "root") {
			t.Errorf("the shell of %s: %s", f[0], f[6])
		}
	}
	if !users["0"] || !strings.HasPrefix(passwd, "root:") {
		t.Error("there is no root")
	}
}

func TestTexts(t *testing.T) {
	r := newRoot(t)
	v := versions{image: "1.36.3+v1.0.0", kubernetes: "v1.36.3", pause: "1", coredns: "1.15.0"}
	if err := writeTexts(r, v); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r.At("/usr/share/croft/image.env")); got != "KUBERNETES_VERSION=v1.36.3\nPAUSE_IMAGE=localhost/pause:1\nCOREDNS_IMAGE=localhost/coredns:1.15.0\n" {
		t.Errorf("image.env is %q", got)
	}
	have, err := imagebuild.ReadVariables(r.At("/etc/os-release"))
	if err != nil || have["NAME"] != "croft Kubernetes node" || have["VERSION"] != v.image || have["ID"] == "debian" {
		t.Errorf("os-release has %v, %v", have, err)
	}
	for _, at := range []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/root", "/mnt", "/etc/kubernetes", "/etc/cni"} {
		if info, err := os.Stat(r.At(at)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// Every version of croft makes a version of the image that vmimage takes.
func TestImageVersion(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"vmlinuz", "initrd"} {
		write(t, filepath.Join(dir, name), name)
	}
	for croft, want := range map[string]string{
		"v1.2.0": "1.36.3+v1.2.0", "v0.4.0-17-g02c9619-dirty": "1.36.3+v0.4.0-17-g02c9619-dirty", "feature/x y": "1.36.3+feature-x-y", "": "1.36.3+",
		strings.Repeat("a", 99): "1.36.3+" + strings.Repeat("a", 57), "é": "1.36.3+-",
	} {
		got := imageVersion("v1.36.3", croft)
		if got != want {
			t.Errorf("of %q it is %s, want %s", croft, got, want)
		}
		if err := vmimage.Write(dir, vmimage.Image{Name: imageName, Version: got, Kernel: "vmlinuz", Initrd: "initrd", Arguments: kernelArguments}); err != nil {
			t.Errorf("of %q: %v", croft, err)
		}
	}
}
