package project_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// nodes are two valid IDs.
func nodes(t *testing.T) (string, string) {
	t.Helper()
	var out [2]string
	for i := range out {
		key, err := sign.FromSeed([]byte(strings.Repeat(string(rune('a'+i)), sign.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		out[i] = key.ID()
	}
	return out[0], out[1]
}

// withNodes puts IDs where the text says NODE1 and NODE2.
func withNodes(t *testing.T, text string) []byte {
	one, two := nodes(t)
	return []byte(strings.NewReplacer("NODE1", one, "NODE2", two).Replace(text))
}

// hashText is the hash of a reservation, as data holds it.
func hashText(n byte) string { return workload.Hash{n}.Hex() }

func all(t *testing.T) *project.File {
	t.Helper()
	content, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := project.Parse("all.yaml", withNodes(t, string(content)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// source opens the secrets of all.yaml.
func source(t *testing.T) project.Source {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "password.txt"), []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return project.Source{Dir: dir, Getenv: func(name string) (string, bool) { return "value of " + name, true }}
}

func TestOrderIsThatOfNeeds(t *testing.T) {
	var got []string
	for _, w := range all(t).Workloads {
		got = append(got, w.Name)
	}
	if s := strings.Join(got, " "); s != "data private web db master logs" {
		t.Errorf("order is %q: needs come first, else the file's order", s)
	}
}

func TestWorkloadsOfEachType(t *testing.T) {
	f := all(t)
	one, two := nodes(t)
	if f.Project != "blog" || len(f.Workloads) != 6 {
		t.Fatalf("read project %q with %d workloads", f.Project, len(f.Workloads))
	}
	web := f.Find("web")
	if web.Type != workload.TypeContainer || web.Node != one || web.Duration != 7*24*time.Hour {
		t.Errorf("web is %s on %s for %s", web.Type, web.Node, web.Duration)
	}
	if d := f.Find("data").Duration; d != 30*24*time.Hour {
		t.Errorf("data lives for %s, must be the file's duration", d)
	}
	if n := f.Find("private").Network; n != "net1" {
		t.Errorf("the network's own name is %q", n)
	}
	for _, s := range f.Find("private").Secrets() {
		want := map[string]string{"net_resources[0].wg_private_key": one, "net_resources[1].wg_private_key": two}[s.Path]
		if want == "" || s.Node != want {
			t.Errorf("%s is sealed to %s, want %s", s.Path, s.Node, want)
		}
	}
}

// TestData compares the data of each workload with testdata/data.golden.
func TestData(t *testing.T) {
	f := all(t)
	src := source(t)
	got := map[string]json.RawMessage{}
	known := project.Targets{
		Workloads: map[string]project.Target{"data": {ID: "7-1", Hash: hashText(7)}, "private": {ID: "8-1", Hash: hashText(8)}},
		Volumes:   map[string]string{"99-1": hashText(99)},
	}
	for _, w := range f.Workloads {
		open := func(s *project.Secret) (string, error) { return s.Open(src) }
		data, err := w.Data(known, open, func(s *project.Secret) (string, error) {
			text, err := s.Open(src)
			return "sealed(" + s.Path + "=" + text + ")", err
		})
		if err != nil {
			t.Fatalf("%s: %v", w.Name, err)
		}
		got[w.Name] = data
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/data.golden")
	if err != nil {
		t.Fatal(err)
	}
	if wantText := strings.TrimSpace(string(withNodes(t, string(want)))); string(text) != wantText {
		t.Errorf("data differs from testdata/data.golden:\n%s", text)
	}
}

func TestDataNeedsTheIDsItRefersTo(t *testing.T) {
	_, err := all(t).Find("web").Data(project.Targets{}, nil, func(*project.Secret) (string, error) { return "x", nil })
	if err == nil || !strings.Contains(err.Error(), `"data" has no ID yet`) {
		t.Errorf("got %v", err)
	}
}

func TestDigestCoversRelevantChanges(t *testing.T) {
	base := `
project: p
node: NODE1
duration: 1d
workloads:
  db:
    zdb: {size: 5, mode: user, password: {secret: env:PASSWORD}, disk_type: SSD}
`
	digest := func(text, key, password string) string {
		f, err := project.Parse("f", withNodes(t, text))
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Workloads[0].Digest([]byte(key), func(s *project.Secret) (string, error) { return password, nil })
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := digest(base, "k", "secret")
	for what, same := range map[string]string{
		"itself":             digest(base, "k", "secret"),
		"another duration":   digest(strings.Replace(base, "1d", "2d", 1), "k", "secret"),
		"another order":      digest(strings.Replace(base, "size: 5, mode: user", "mode: user, size: 5", 1), "k", "secret"),
		"another source":     digest(strings.Replace(base, "env:PASSWORD", "file:x", 1), "k", "secret"),
		"another node's row": digest(strings.Replace(base, "node: NODE1", "# why\nnode: NODE1", 1), "k", "secret"),
	} {
		if same != want {
			t.Errorf("the digest changes with %s", what)
		}
	}
	for what, other := range map[string]string{
		"another size":   digest(strings.Replace(base, "size: 5", "size: 6", 1), "k", "secret"),
		"another node":   digest(strings.Replace(base, "NODE1", "NODE2", 1), "k", "secret"),
		"another secret": digest(base, "k", "other"),
		"another key":    digest(base, "other", "secret"),
	} {
		if other == want {
			t.Errorf("the digest doesn't change with %s", what)
		}
	}
	if strings.Contains(want, "secret") {
		t.Errorf("the digest shows the secret: %s", want)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	for _, w := range all(t).Workloads {
		for _, s := range w.Secrets() {
			if strings.Contains(s.String(), "pass") && !strings.HasPrefix(s.String(), "file:") {
				t.Errorf("%s prints %q", s.Path, s)
			}
		}
	}
	// A password where a source should stand isn't repeated in the error.
	for _, written := range []string{"hunter2secret", "{secret: hunter2secret}", "{secrets: env:hunter2secret}", "{secret: env:A, more: hunter2secret}"} {
		_, err := project.Parse("f", withNodes(t, "project: p\nnode: NODE1\nduration: 1d\nworkloads:\n  db:\n    zdb: {size: 1, password: "+written+"}\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "line 6") {
			t.Errorf("%s: %v", written, err)
		}
	}
}

func TestSecretSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lf", "text\n")
	write("crlf", "text\r\n")
	write("two", "one\ntwo\n")
	write("empty", "\n")
	write("big", strings.Repeat("x", 100<<10))
	src := project.Source{Dir: dir, Getenv: func(name string) (string, bool) {
		v, ok := map[string]string{"SET": "text", "EMPTY": ""}[name]
		return v, ok
	}}
	for source, want := range map[string]string{
		"literal:text": "text", "literal:a:b": "a:b", "env:SET": "text", "file:lf": "text", "file:crlf": "text", "file:two": "one\ntwo",
		"file:" + filepath.Join(dir, "lf"): "text",
		"env:EMPTY":                        "error: EMPTY", "env:UNSET": "error: UNSET", "file:empty": "error: is empty", "file:none": "error: no such file", "file:big": "error: 65536",
	} {
		f, err := project.Parse("f.yaml", withNodes(t, "project: p\nnode: NODE1\nduration: 1d\nworkloads:\n  db:\n    zdb: {size: 1, password: {secret: \""+source+"\"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Workloads[0].Secrets()[0].Open(src)
		if cause, bad := strings.CutPrefix(want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), cause) || !strings.Contains(err.Error(), "line 6") {
				t.Errorf("%s: got %q, %v; want an error about %q", source, got, err, cause)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", source, got, err, want)
		}
	}
}

func TestLoadErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	_, err := project.Load(path)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", 2<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	var e *project.Error
	if _, err := project.Load(path); !errors.As(err, &e) || !strings.Contains(e.Problem, "more than") {
		t.Errorf("a file of 2 MiB: %v", err)
	}
}

func TestCheckAcceptsValidWorkloads(t *testing.T) {
	user, _ := nodes(t)
	for _, w := range all(t).Workloads {
		if err := w.Check(user); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
}

// TestCheckNamesTheLine: what the reservation's rules refuse is told in the
// words of the file, with its line.
func TestCheckNamesTheLine(t *testing.T) {
	user, _ := nodes(t)
	head := "project: p\nnode: NODE1\nduration: 1d\nworkloads:\n  a:\n"
	for _, c := range []struct {
		file string
		line int
		says []string
	}{
		{"    volume: {size: 0, type: SSD}", 6, []string{"workloads.a.volume.size: is 0, must be a whole number of GiB"}},
		{"    volume: {size: -1, type: SSD}", 6, []string{"workloads.a.volume.size: is -1"}},
		{"    volume: {size: 17179869185, type: SSD}", 6, []string{"workloads.a.volume.size: is 17179869185"}},
		{"    volume:\n      size: 1\n      type: NVME", 8, []string{`workloads.a.volume.type: is "NVME"`, "SSD"}},
		{"    volume:\n      size: 1", 7, []string{"workloads.a.volume.type: is missing", "SSD"}},
		{"    zdb: {size: 1, mode: both, disk_type: SSD}", 6, []string{"zdb.mode", "user"}},
		{"    container:\n      flist: x\n      capacity: {cpu: 1, memory: 1}\n      network:\n        network_id: n\n        ips: [127.0.0.1]", 11,
			[]string{"workloads.a.container.network.ips[0]", "not of loopback"}},
		{"    container:\n      flist: x\n      capacity: {cpu: 1, memory: 1}\n      network: {network_id: n, ips: [10.0.0.2]}\n      mounts:\n        - {volume: v, mountpoint: /}\n  v:\n    volume: {size: 1, type: SSD}", 11,
			[]string{"workloads.a.container.mounts[0].mountpoint", "other than /"}},
		{"    container:\n      flist: x\n      capacity: {cpu: 1, memory: 1}\n      network: {network_id: n, ips: [10.0.0.2]}\n      env: {A: x}\n      secret_env: {A: {secret: env:A}}", 11,
			[]string{"workloads.a.container.secret_env.A", "env"}},
		{"    container:\n      flist: x\n      capacity: {cpu: 1, memory: 1}\n      network: {network_id: n, ips: [10.0.0.2]}\n      mounts:\n        - {volume_id: ../x, mountpoint: /m}", 11,
			[]string{"mounts[0].volume_id", "N-M"}},
		{"    container:\n      flist: x\n      capacity: {cpu: 1, memory: 1}\n      network:\n        network_id: n\n        network_hash: AB\n        ips: [10.0.0.2]", 11,
			[]string{`workloads.a.container.network.network_hash: is "AB", must be the hash of a reservation of the network: 64 hexadecimal digits`}},
	} {
		f, err := project.Parse("croft.yaml", withNodes(t, head+c.file))
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		err = f.Find("a").Check(user)
		var e *project.Error
		if !errors.As(err, &e) || e.Line != c.line {
			t.Errorf("%q: %v, want an error at line %d", c.file, err, c.line)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q: %q doesn't say %q", c.file, err, s)
			}
		}
	}
}
