package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// Parts lie where the guest's programs call them, each in a place of its own.
func TestPartPlaces(t *testing.T) {
	var places []string
	for _, p := range parts() {
		places = append(places, p.place())
	}
	slices.Sort(places)
	want := []string{
		"/coredns", "/opt/cni/bin/host-local", "/opt/cni/bin/loopback", "/opt/cni/bin/portmap", "/opt/cni/bin/ptp",
		"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/ctr", "/usr/bin/kube-server", "/usr/bin/kube-worker", "/usr/bin/runc",
	}
	if !slices.Equal(places, want) {
		t.Errorf("they are %v, want %v", places, want)
	}
}

func TestFindParts(t *testing.T) {
	c := config{parts: t.TempDir()}
	for _, p := range parts() {
		write(t, filepath.Join(c.parts, p.name), "program")
	}
	if found, err := findParts(t.Context(), c, imagebuild.NewProgress(io.Discard, "test")); err != nil || len(found) != len(parts()) || found["/opt/cni/bin/ptp"] != filepath.Join(c.parts, "ptp") {
		t.Errorf("they are %v, %v", found, err)
	}
	if err := os.Remove(filepath.Join(c.parts, "runc")); err != nil {
		t.Fatal(err)
	}
	if _, err := findParts(t.Context(), c, imagebuild.NewProgress(io.Discard, "test")); err == nil || !strings.Contains(err.Error(), "cannot find part runc") {
		t.Errorf("without runc: %v", err)
	}
}

// Programs that aren't Kubernetes and CoreDNS of a version, or two versions of Kubernetes, make no image.
func TestForeignParts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{serverProgram: self, workerProgram: self, corednsProgram: self}
	if _, _, err := readPrograms(files, map[string]string{initProgram: self}, "dev"); err == nil || !strings.HasPrefix(err.Error(), "cannot take the part ") {
		t.Errorf("%v", err)
	}
}

// The C libraries of programs with C code are known by their packages.
func TestLinkedLibraries(t *testing.T) {
	programs := []imagebuild.Program{{Path: "/usr/bin/ctr"}, {Path: "/usr/bin/runc"}}
	answers := func(text string) imagebuild.Runner {
		return func(context.Context, string, string, ...string) ([]byte, error) { return []byte(text), nil }
	}
	if err := linkLibraries(t.Context(), answers("libc6-dev 2.36-9 amd64 glibc 2.36-9\nlibseccomp-dev 2.5.4-1+b3 amd64 libseccomp 2.5.4-1\n"), programs); err != nil {
		t.Fatal(err)
	}
	want := imagebuild.Package{Name: "libseccomp-dev", Version: "2.5.4-1+b3", Architecture: "amd64", Source: "libseccomp", SourceVersion: "2.5.4-1"}
	if len(programs[0].Linked) != 0 || len(programs[1].Linked) != 2 || programs[1].Linked[1] != want {
		t.Errorf("they are %+v", programs)
	}
	if err := linkLibraries(t.Context(), answers("libc6-dev 2.36-9\n"), programs); err == nil {
		t.Error("half a line is taken")
	}
}
