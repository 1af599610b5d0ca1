// Command xterm fetches the files of xterm.js that the terminal page of interactive containers embeds.
// The folder of the page's package holds xterm.json, which pins packages of npm, their integrity
// hashes, and the hash of each file; the files go into page/xterm beside it. It fetches with npm, from
// the registry that npm is set to, and trusts neither: what has another hash is not written.
//
//	xterm FOLDER
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pkg/errors"
)

// maxFile is the size of the largest file that is read from a package.
const maxFile = 8 << 20

// pins are the contents of xterm.json.
type pins struct {
	Packages []pinned `json:"packages"`
}

// pinned is a package of npm and the files that are taken of it.
type pinned struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
	Files     []file `json:"files"`
}

// file is a file, its path in the package, and the SHA-256 of its content.
type file struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: xterm FOLDER")
		os.Exit(2)
	}
	if err := fetch(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "xterm:", err)
		os.Exit(1)
	}
}

// fetch writes the files of all packages below a folder.
func fetch(ctx context.Context, folder string) error {
	raw, err := os.ReadFile(filepath.Join(folder, "xterm.json"))
	if err != nil {
		return errors.Wrap(err, "cannot read the pinned packages")
	}
	var all pins
	if err := json.Unmarshal(raw, &all); err != nil {
		return errors.Wrap(err, "cannot read the pinned packages")
	}
	target := filepath.Join(folder, "page", "xterm")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return errors.Wrap(err, "cannot make the folder of the files")
	}
	for _, p := range all.Packages {
		archive, err := pack(ctx, p)
		if err != nil {
			return err
		}
		contents, err := p.files(archive)
		if err != nil {
			return err
		}
		for name, content := range contents {
			if err := os.WriteFile(filepath.Join(target, name), content, 0o644); err != nil {
				return errors.Wrapf(err, "cannot write %s", name)
			}
		}
		fmt.Printf("xterm: %s %s: %d files\n", p.Name, p.Version, len(contents))
	}
	return nil
}

// pack returns a package's archive, as npm fetches it.
func pack(ctx context.Context, p pinned) ([]byte, error) {
	dir, err := os.MkdirTemp("", "croft-npm-")
	if err != nil {
		return nil, errors.Wrapf(err, "cannot fetch %s", p.Name)
	}
	defer os.RemoveAll(dir)
	npm := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", dir, p.Name+"@"+p.Version)
	npm.Stderr = os.Stderr
	if err := npm.Run(); err != nil {
		return nil, errors.Wrapf(err, "cannot fetch %s with npm", p.Name)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return nil, errors.Errorf("cannot fetch %s: npm has written %d archives", p.Name, len(archives))
	}
	archive, err := os.ReadFile(archives[0])
	return archive, errors.Wrapf(err, "cannot read the archive of %s", p.Name)
}

// files are the wanted files of a package's archive, after both kinds of hashes were checked.
func (p pinned) files(archive []byte) (map[string][]byte, error) {
	sum := sha512.Sum512(archive)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != p.Integrity {
		return nil, errors.Errorf("cannot take %s %s: its integrity is %s, must be %s", p.Name, p.Version, got, p.Integrity)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, errors.Wrapf(err, "cannot read the archive of %s", p.Name)
	}
	found := map[string][]byte{}
	entries := tar.NewReader(unzipped)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Wrapf(err, "cannot read the archive of %s", p.Name)
		}
		for _, f := range p.Files {
			if f.Path != entry.Name {
				continue
			}
			if found[f.Name], err = f.read(entries); err != nil {
				return nil, errors.Wrapf(err, "cannot take %s of %s", f.Path, p.Name)
			}
		}
	}
	if len(found) != len(p.Files) {
		return nil, errors.Errorf("cannot take %s %s: it has %d of the %d wanted files", p.Name, p.Version, len(found), len(p.Files))
	}
	return found, nil
}

// read reads the file, which must have its hash.
func (f file) read(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != f.SHA256 {
		return nil, errors.Errorf("cannot accept its SHA-256 %s: must be %s", got, f.SHA256)
	}
	return content, nil
}
