// Command stubgen generates the stubs of the modules' contracts into
// pkg/node/stubs: zbusc's output, with every panic made an error, and the table
// of the contract's methods, which bus.RegisterMethods takes. With -check it changes
// nothing and fails when a stub or its table isn't current.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

func main() {
	check := flag.Bool("check", false, "fail when a stub isn't current, change nothing")
	dir := flag.String("dir", "", "where the stubs are (default: pkg/node/stubs of this module)")
	flag.Parse()
	if err := run(*dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return err
		}
		dir = filepath.Join(root, "pkg", "node", "stubs")
	}
	wanted := map[string][]byte{}
	for _, c := range contracts() {
		src, err := generate(c)
		if err != nil {
			return err
		}
		wanted[c.file] = src
	}
	stale, err := compare(dir, wanted)
	if err != nil {
		return err
	}
	if check {
		if len(stale) > 0 {
			return errors.Errorf("these stubs are not current: %s; run `make generate`", strings.Join(stale, ", "))
		}
		return nil
	}
	for _, name := range stale {
		if err := replace(filepath.Join(dir, name), wanted[name]); err != nil {
			return err
		}
	}
	return nil
}

// compare names the files of dir that differ from the wanted ones, are missing,
// or are not wanted any more.
func compare(dir string, wanted map[string][]byte) ([]string, error) {
	var stale []string
	for name, src := range wanted {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Wrap(err, "cannot read a stub")
		}
		if !bytes.Equal(have, src) {
			stale = append(stale, name)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "*_stub.go"))
	if err != nil {
		return nil, errors.Wrap(err, "cannot list the stubs")
	}
	for _, path := range found {
		if _, ok := wanted[filepath.Base(path)]; !ok {
			stale = append(stale, filepath.Base(path))
		}
	}
	return stale, nil
}

// replace writes a stub, or removes the stub of a contract that is gone.
func replace(path string, src []byte) error {
	if src == nil {
		return os.Remove(path)
	}
	return atomicfile.WriteFile(path, src, 0o644)
}

// moduleRoot is the folder of the go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", errors.Wrap(err, "cannot find the module")
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("cannot find the module: no go.mod above the working directory")
		}
		dir = parent
	}
}
