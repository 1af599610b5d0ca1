package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sourceRoot is the root folder of croft's source as the tests see it.
const sourceRoot = "../../.."

// goMod is what `go mod edit -json` prints of a go.mod.
type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
	Tool []struct{ Path string }
}

func readGoMod(t *testing.T, module string) goMod {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(sourceRoot, partsFolder, module)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd.Dir, err)
	}
	var m goMod
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m goMod) version(path string) string {
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version
		}
	}
	return ""
}

func TestPartsAreWhole(t *testing.T) {
	names, folders := map[string]bool{}, map[string]bool{"kubectl": true} // kubectl is for tests and people, not in the image
	for _, p := range parts() {
		if names[p.name] {
			t.Errorf("there are two parts %s", p.name)
		}
		names[p.name], folders[p.module] = true, true
		if p.cgo != (p.name == "runc") {
			t.Errorf("part %s: cgo is %t", p.name, p.cgo)
		}
		m := readGoMod(t, p.module)
		if want := "github.com/croft-edge/croft/" + partsFolder + "/" + p.module; m.Module.Path != want {
			t.Errorf("the module of %s is %s, want %s", p.name, m.Module.Path, want)
		}
		if _, err := os.Stat(filepath.Join(sourceRoot, partsFolder, p.module, "go.sum")); err != nil {
			t.Errorf("part %s: %v", p.name, err)
		}
		if strings.HasPrefix(p.pkg, ".") {
			if _, err := os.Stat(filepath.Join(sourceRoot, partsFolder, p.module, p.pkg, "main.go")); err != nil {
				t.Errorf("part %s: %v", p.name, err)
			}
		} else if !slices.ContainsFunc(m.Tool, func(tool struct{ Path string }) bool { return tool.Path == p.pkg }) {
			t.Errorf("%s is no tool of the module of %s", p.pkg, p.name)
		}
	}
	below, err := os.ReadDir(filepath.Join(sourceRoot, partsFolder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range below {
		if !folders[entry.Name()] {
			t.Errorf("no part is compiled of %s", entry.Name())
		}
	}
}

// The versions in the table are those that the modules pin.
func TestPartsArePinned(t *testing.T) {
	for _, p := range []struct{ module, path, version string }{
		{"kubernetes", "k8s.io/kubernetes", kubernetesVersion},
		{"kubernetes", "go.etcd.io/etcd/server/v3", "v3.6.8"},
		{"containerd", "github.com/containerd/containerd/v2", containerdVersion},
		{"containerd", "k8s.io/cri-api", stagingVersion()},
		{"runc", "github.com/opencontainers/runc", "v1.5.2"},
		{"cni", "github.com/containernetworking/plugins", cniVersion},
		{"coredns", "github.com/coredns/coredns", "v1.15.0"},
		{"kubectl", "k8s.io/kubectl", stagingVersion()},
	} {
		if got := readGoMod(t, p.module).version(p.path); got != p.version {
			t.Errorf("module %s has %s %s, want %s", p.module, p.path, got, p.version)
		}
	}
	if text, err := os.ReadFile(filepath.Join(sourceRoot, "Makefile")); err != nil || !strings.Contains(string(text), "gitVersion="+kubernetesVersion+"'") {
		t.Errorf("the Makefile has another version of kubectl than %s: %v", kubernetesVersion, err)
	}
	for _, p := range parts() {
		for name, value := range p.variables {
			if want := strings.Split(kubernetesVersion, "."); strings.HasSuffix(name, ".gitMajor") && "v"+value != want[0] ||
				strings.HasSuffix(name, ".gitMinor") && value != want[1] {
				t.Errorf("part %s: %s is %s, the version is %s", p.name, name, value, kubernetesVersion)
			}
		}
	}
}

// stagingVersion is the version of the k8s.io modules that belong to kubernetesVersion.
func stagingVersion() string { return "v0" + strings.TrimPrefix(kubernetesVersion, "v1") }

// Kubernetes needs each module of its own source tree in its own version: without a replacement the go command would
// take the version that some other module asks for.
func TestKubernetesModulesAreReplaced(t *testing.T) {
	m := readGoMod(t, "kubernetes")
	replaced := map[string]bool{}
	for _, r := range m.Replace {
		replaced[r.Old.Path] = true
		if r.Old.Version != "" || r.New.Path != r.Old.Path || r.New.Version != stagingVersion() {
			t.Errorf("%s %s is replaced by %s %s, want %s", r.Old.Path, r.Old.Version, r.New.Path, r.New.Version, stagingVersion())
		}
	}
	if len(replaced) != 33 {
		t.Errorf("%d modules are replaced, want the 33 of Kubernetes' source", len(replaced))
	}
	for _, r := range m.Require {
		apart := r.Path == "k8s.io/kubernetes" || r.Path == "k8s.io/klog/v2" || r.Path == "k8s.io/kube-openapi" ||
			r.Path == "k8s.io/utils" || r.Path == "k8s.io/system-validators"
		if strings.HasPrefix(r.Path, "k8s.io/") && !apart && !replaced[r.Path] {
			t.Errorf("%s %s is not replaced", r.Path, r.Version)
		}
	}
}

// makePart makes a module with one program below a root folder.
func makePart(t *testing.T, root, source string) part {
	t.Helper()
	dir := filepath.Join(root, partsFolder, "one")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module example.org/one\n\ngo 1.26.0\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return part{name: "first", module: "one", pkg: ".", tags: []string{"a"}, variables: map[string]string{"main.x": "set", "main.y": ""}}
}

func TestCompilePart(t *testing.T) {
	const source = "package main\n\nvar x, y = \"x\", \"y\"\n\nfunc main() { print(x, \"|\", y) }\n"
	var first []byte
	for range 2 { // in two folders, for the same bytes
		root, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
		var said []string
		say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		if err := makePart(t, root, source).compile(t.Context(), root, out, say); err != nil {
			t.Fatal(err)
		}
		if len(said) != 1 || !strings.HasPrefix(said[0], "part first: ") || !strings.Contains(said[0], "MiB") {
			t.Errorf("said %q", said)
		}
		if got, err := exec.Command(filepath.Join(out, "first")).CombinedOutput(); err != nil || string(got) != "set|" {
			t.Errorf("the program says %q, %v", got, err)
		}
		text, err := os.ReadFile(filepath.Join(out, "first"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		} else if !slices.Equal(text, first) {
			t.Error("the same source has made different programs")
		}
	}
}

// A part that does not compile is named, with what the compiler says, and the one that was there stays.
func TestCompilePartFails(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	p := makePart(t, root, "package main\n\nfunc main() { bogus() }\n")
	if err := os.WriteFile(filepath.Join(out, p.name), []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	say := func(format string, args ...any) { t.Errorf("said "+format, args...) }
	err := p.compile(t.Context(), root, out, say)
	if err == nil || !strings.Contains(err.Error(), "part first") || !strings.Contains(err.Error(), "undefined: bogus") {
		t.Errorf("error %v, want one with the part and the compiler's words", err)
	}
	p.cgo = true
	if err := p.compile(t.Context(), root, out, say); err == nil || !strings.Contains(err.Error(), "libseccomp-dev") {
		t.Errorf("error %v, want one that says what C code needs", err)
	}
	if text, err := os.ReadFile(filepath.Join(out, p.name)); err != nil || string(text) != "old" {
		t.Errorf("the old program is %q, %v", text, err)
	}
}

// No part may take a version that its go.sum does not have, nor C code without being known for it.
func TestPartCommands(t *testing.T) {
	for _, p := range parts() {
		args, env := p.arguments("/out"), p.environment()
		for _, flag := range []string{"-mod=readonly", "-trimpath", "-buildvcs=false"} {
			if !slices.Contains(args, flag) {
				t.Errorf("part %s is compiled without %s", p.name, flag)
			}
		}
		cgo := map[bool]string{true: "CGO_ENABLED=1", false: "CGO_ENABLED=0"}[p.cgo]
		if !slices.Contains(env, cgo) || !slices.Contains(env, "GOFLAGS=-mod=readonly") || !slices.Contains(env, "GOAMD64=v1") {
			t.Errorf("part %s is compiled with %q", p.name, env)
		}
	}
}
