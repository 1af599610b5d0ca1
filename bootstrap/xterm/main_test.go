package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archiveOf is a package of npm with one file.
func archiveOf(t *testing.T, path, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	entries := tar.NewWriter(zipped)
	if err := entries.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := entries.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := entries.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestFetch fetches from an npm that copies an archive.
func TestFetch(t *testing.T) {
	archive := archiveOf(t, "package/lib/a.mjs", "the file")
	sum := sha512.Sum512(archive)
	good := pinned{
		Name: "@some/package", Version: "1.2.3", Integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		Files: []file{{Name: "a.mjs", Path: "package/lib/a.mjs", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("the file")))}},
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "archive"), archive, 0o600); err != nil {
		t.Fatal(err)
	}
	npm := "#!/bin/sh\n[ \"$1 $6\" = 'pack @some/package@1.2.3' ] || exit 9\ncp " + bin + "/archive \"$5/some-package-1.2.3.tgz\"\n"
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, c := range map[string]struct {
		change func(*pinned)
		want   string
	}{
		"as pinned":         {func(*pinned) {}, ""},
		"another archive":   {func(p *pinned) { p.Integrity = "sha512-" + strings.Repeat("A", 86) + "==" }, "its integrity is sha512-"},
		"another file":      {func(p *pinned) { p.Files[0].SHA256 = strings.Repeat("0", 64) }, "cannot accept its SHA-256"},
		"a missing file":    {func(p *pinned) { p.Files[0].Path = "package/lib/b.mjs" }, "it has 0 of the 1 wanted files"},
		"a missing package": {func(p *pinned) { p.Version = "1.2.4" }, "cannot fetch @some/package with npm"},
	} {
		t.Run(name, func(t *testing.T) {
			p := good
			p.Files = []file{good.Files[0]}
			c.change(&p)
			folder := t.TempDir()
			raw, err := json.Marshal(pins{Packages: []pinned{p}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "xterm.json"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			err = fetch(t.Context(), folder)
			content, missing := os.ReadFile(filepath.Join(folder, "page/xterm/a.mjs"))
			if c.want == "" {
				if err != nil || string(content) != "the file" {
					t.Errorf("written %q, %v", content, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || missing == nil {
				t.Errorf("it must say %q and write nothing: %v, written %q", c.want, err, content)
			}
		})
	}
}
