package kubeconfig_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/kubeconfig"
)

// existing is a file as kubectl writes it, with comments of its owner.
const existing = `# My clusters.
apiVersion: v1
clusters:
# The one at work.
- cluster:
    certificate-authority: /etc/work/ca.pem
    server: https://work.example.org # behind the VPN
  name: work
- cluster:
    server: https://10.9.9.9:6443
  name: croft-7-1
contexts:
- context:
    cluster: work
    namespace: mine
    user: me
  name: work
# There is no other context.
current-context: work
kind: Config
preferences: {}
users:
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args: ["yes", 'a b', "0x10"]
      command: get-token
      env: null
# The end.
`

func admin(tb testing.TB) kubeconfig.Config {
	tb.Helper()
	a, err := kubeconfig.Read([]byte(answer(tb)), address())
	if err != nil {
		tb.Fatal(err)
	}
	return a.Named("croft-7-1")
}

func merged(tb testing.TB, text string, use bool) string {
	tb.Helper()
	out, err := kubeconfig.Merge([]byte(text), admin(tb), use)
	if err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	return string(out)
}

// TestMergeKeepsTheRest: other entries and comments stay as they are, to the byte.
func TestMergeKeepsTheRest(t *testing.T) {
	own := admin(t)
	merge := func(text string, use bool) string {
		t.Helper()
		out, err := kubeconfig.Merge([]byte(text), own, use)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	with := func(text, old, new string) string {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q isn't once in %s", old, text)
		}
		return strings.Replace(text, old, new, 1)
	}
	want := with(existing, "- cluster:\n    server: https://10.9.9.9:6443\n  name: croft-7-1\n",
		"- name: croft-7-1\n  cluster:\n    server: https://10.1.2.10:6443\n    certificate-authority-data: "+own.Clusters[0].Cluster.CA+"\n")
	want = with(want, "# There is no other", "- name: croft-7-1\n  context:\n    cluster: croft-7-1\n    user: croft-7-1\n# There is no other")
	want = with(want, "# The end", "- name: croft-7-1\n  user:\n    client-certificate-data: "+own.Users[0].User.Certificate+"\n    client-key-data: "+own.Users[0].User.Key+"\n# The end")
	out := merge(existing, false)
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if again := merge(out, false); again != out {
		t.Errorf("merged again:\n%s", again)
	}
	if got, want := merge(existing, true), with(want, "current-context: work", "current-context: croft-7-1"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	indented := "clusters:\n  - name: a\n    cluster:\n      server: https://a\n"
	if got := merge(indented, false); !strings.HasPrefix(got, indented+"  - name: croft-7-1\n    cluster:\n") {
		t.Errorf("got\n%s", got)
	}
}

// TestMergeIntoLittle: files that are empty, or almost, become whole ones.
func TestMergeIntoLittle(t *testing.T) {
	for _, text := range []string{
		"", "\n", "# Mine.\n", "# Mine.", "{}\n", "apiVersion: v1\nkind: Config\n",
		"apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n",
		"apiVersion: v1\nclusters: []\ncontexts: []\ncurrent-context: \"\"\nkind: Config\nusers: []\n",
		"clusters:\nusers:\ncontexts:\n",
		`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a"}}],"contexts":[]}`,
	} {
		for _, use := range []bool{false, true} {
			out := merged(t, text, use)
			var v struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string
				Clusters   []struct{ Name string }
				Users      []struct{ Name string }
				Contexts   []struct{ Name string }
				Current    string `yaml:"current-context"`
			}
			if err := yaml.Unmarshal([]byte(out), &v); err != nil {
				t.Errorf("%q became %s: %v", text, out, err)
			}
			last := len(v.Clusters) - 1
			if v.APIVersion != "v1" || v.Kind != "Config" || last < 0 || v.Clusters[last].Name != "croft-7-1" || len(v.Users) != 1 || len(v.Contexts) != 1 || (v.Current == "croft-7-1") != use {
				t.Errorf("%q became %+v:\n%s", text, v, out)
			}
			if strings.Contains(text, "# Mine.") && !strings.HasPrefix(out, "# Mine.\n") {
				t.Errorf("the comment is gone: %s", out)
			}
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"- a\n": "it isn't a kubeconfig", "kind: Secret\n": "its kind isn't Config", "a: [": "cannot read it", "a: 1\n---\nb: 2\n": "more than one document",
		"clusters: {a: b}\n": "its clusters aren't a list", "clusters: x\n": "its clusters aren't a list", "users: []\nusers: []\n": "twice",
		"x: &a []\nclusters: *a\n": "its clusters aren't a list", "\x00": "cannot read it", "null\n": "it isn't a kubeconfig",
		"clusters:\n- &a\n  name: croft-7-1\n  cluster: {}\nother: *a\n": "it would be damaged",
	} {
		if out, err := kubeconfig.Merge([]byte(text), admin(t), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q became %s, %v; want %q", text, out, err, want)
		}
	}
}

// TestMergeProperty: whatever a file has, its other entries and members mean the same afterwards.
func TestMergeProperty(t *testing.T) {
	own := admin(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "croft-7-1", "croft-7-10", "c: d", "é", "#", "- x", "null", "1"})
		// The library that makes the file can't write texts of several lines that begin with a space or a newline.
		text := rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "\n") })
		value := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](map[string]any{"server": "https://x"}), rapid.Map(text, func(s string) any { return s }), rapid.Just[any]([]any{1, true, "yes"}))
		file := map[string]any{"preferences": map[string]any{}, "extra": value.Draw(t, "extra")}
		for list, member := range map[string]string{"clusters": "cluster", "users": "user", "contexts": "context"} {
			entries := []any{}
			for range rapid.IntRange(0, 4).Draw(t, list) {
				entries = append(entries, map[string]any{"name": name.Draw(t, "name"), member: value.Draw(t, "value")})
			}
			file[list] = entries
		}
		before, err := yaml.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		before = append([]byte("# Mine.\n"), before...)
		out, err := kubeconfig.Merge(before, own, false)
		if err != nil {
			t.Fatalf("%v in %s", err, before)
		}
		if before, after := others(t, before), others(t, out); !bytes.Equal(before, after) {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		if n := bytes.Count(out, []byte("name: croft-7-1\n")); n != 3 || !bytes.HasPrefix(out, []byte("# Mine.\n")) {
			t.Errorf("%d entries in\n%s", n, out)
		}
		if again, err := kubeconfig.Merge(out, own, false); err != nil || !bytes.Equal(again, out) {
			t.Errorf("again: %v\n%s\nafter\n%s", err, again, out)
		}
	})
}

// others is what a file means without the entries of croft-7-1, and the members that every kubeconfig has.
func others(t *rapid.T, text []byte) []byte {
	var v map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	delete(v, "apiVersion")
	delete(v, "kind")
	for _, list := range []string{"clusters", "users", "contexts"} {
		entries, _ := v[list].([]any)
		v[list] = slices.DeleteFunc(entries, func(e any) bool { return fmt.Sprint(e.(map[string]any)["name"]) == "croft-7-1" })
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzMerge: a file is refused, or has the entry and can be merged into again.
func FuzzMerge(f *testing.F) {
	for _, text := range []string{existing, "", "---\n", "...", "{}", "clusters: [&a {name: croft-7-1}]\nusers: [*a]\n", "? [a]\n: b\n", "<<: {clusters: []}\n", "a: |2-\n\n    A\n"} {
		f.Add(text)
	}
	own := admin(f)
	f.Fuzz(func(t *testing.T, text string) {
		out, err := kubeconfig.Merge([]byte(text), own, true)
		if err != nil {
			return
		}
		again, err := kubeconfig.Merge(out, own, true)
		if err != nil || !bytes.Contains(again, []byte("current-context: croft-7-1")) && !bytes.Contains(again, []byte(`current-context": croft-7-1`)) {
			t.Fatalf("%q became %q, and that %q, %v", text, out, again, err)
		}
	})
}
