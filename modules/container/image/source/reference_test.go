package source

import (
	"errors"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestReferencesAreReadAsDockerDoes(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	sources := New(Config{Paths: []string{"/images"}})
	for in, want := range map[string]string{
		"docker://alpine":                    "docker://docker.io/library/alpine:latest",
		"docker://me/app:2":                  "docker://docker.io/me/app:2",
		"docker://docker.io/alpine":          "docker://docker.io/library/alpine:latest",
		"docker://example.org/a/b/c:1":       "docker://example.org/a/b/c:1",
		"docker://example.org:5000/a":        "docker://example.org:5000/a:latest",
		"docker://example.org/a:1@" + digest: "docker://example.org/a@" + digest,
		"docker://alpine@" + digest:          "docker://docker.io/library/alpine@" + digest,
		"/images/a.tar":                      "/images/a.tar",
		"":                                   "",
		"docker://":                          "",
		"docker:///a":                        "",
		"docker://Example.org/A":             "",
		"docker://a@sha256:abc":              "",
		"docker://a@sha512:" + strings.Repeat("a", 128): "",
		"docker://user:pass@example.org/a":              "",
		"docker://a b":                                  "",
		"docker://example.org/../etc":                   "",
		"docker://" + strings.Repeat("a", 2000):         "",
		"oci://a":                                       "",
		"https://hub.example.org/a.flist":               "",
		"images/a.tar":                                  "",
		"/images":                                       "",
		"/images/":                                      "",
		"/images/../etc/passwd":                         "",
		"/images//a":                                    "",
		"/imagesnot/a":                                  "",
		"/etc/passwd":                                   "",
		"/images/a\x00b":                                "",
	} {
		ref, err := sources.Parse("ada", in)
		got := ref.Text
		if want == "" {
			for _, text := range []string{"cannot", "data.flist", "docker://HOST/NAME:TAG", "/images"} {
				if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), text) {
					t.Errorf("%q: %v must be Invalid and say %q", in, err, text)
				}
			}
		} else if err != nil || got != want {
			t.Errorf("%s is %q, %v, want %s", in, got, err, want)
		}
	}
}

func TestOwnImagesHaveNames(t *testing.T) {
	for name, path := range map[string]string{"": "/a", "Zdb": "/a", "a/b": "/a", "..": "/a", "zdb": "a", "own": "/a/../b", "root": "/"} {
		c := Config{Own: map[string]string{name: path}}
		err := c.Validate()
		if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "cannot") || !strings.Contains(err.Error(), "Own has") || !strings.Contains(err.Error(), path) {
			t.Errorf("%q at %q: %v", name, path, err)
		}
	}
}
