package vmguest

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	modulePath = "github.com/croft-edge/croft"
	// programDir is the guest's program, relative to the module's root.
	programDir = "internal/testing/vmguest/init"
	// packerDir is the package that packs it.
	packerDir = "internal/initrd"
)

// moduleRoot is the folder with go.mod above the test's.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("this isn't in croft's source: there is no go.mod above")
		}
		dir = up
	}
}

// sourceKey is a hash of all that the guest's initrd is made of: the files of the packages of this module that its
// program imports, directly or not; the packages that pack it; and the versions of other modules.
func sourceKey(root string) (string, error) {
	var parts []string
	add := func(name string) ([]byte, error) {
		content, err := os.ReadFile(filepath.Join(root, name))
		parts = append(parts, name, string(content))
		return content, err
	}
	if _, err := add("go.mod"); err != nil {
		return "", err
	}
	seen := map[string]bool{programDir: true, filepath.Dir(programDir): true}
	for queue := []string{programDir}; len(queue) > 0; queue = queue[1:] {
		files, err := sources(root, queue[0])
		if err != nil {
			return "", err
		}
		for _, name := range files {
			content, err := add(name)
			if err != nil {
				return "", err
			}
			below, err := imports(content)
			if err != nil {
				return "", fmt.Errorf("cannot read %s: %w", name, err)
			}
			for _, dir := range below {
				if !seen[dir] {
					seen[dir] = true
					queue = append(queue, dir)
				}
			}
		}
	}
	for _, dir := range []string{filepath.Dir(programDir), packerDir} {
		files, err := sources(root, dir)
		if err != nil {
			return "", err
		}
		for _, name := range files {
			if _, err := add(name); err != nil {
				return "", err
			}
		}
	}
	return hash(parts...), nil
}

// sources are the Go files of a folder but for tests.
func sources(root, dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range found {
		if !strings.HasSuffix(name, "_test.go") {
			out = append(out, filepath.Join(dir, filepath.Base(name)))
		}
	}
	slices.Sort(out)
	return out, nil
}

// imports are the folders of this module's packages that a file imports.
func imports(content []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if dir, ours := strings.CutPrefix(path, modulePath+"/"); ours {
			out = append(out, dir)
		}
	}
	return out, nil
}
