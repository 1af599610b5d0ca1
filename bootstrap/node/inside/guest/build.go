package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
)

// build has the host build programs: it does what go build with the option -o does. Several programs go into the folder -o, each under the name
// of its package.
func build(args []string) error {
	var flags, packages []string
	out := ""
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-o" && i+1 < len(args):
			out = args[i+1]
			i++
		case strings.HasPrefix(args[i], modulePath+"/"):
			packages = append(packages, args[i])
		default:
			flags = append(flags, args[i])
		}
	}
	if len(args) == 0 || args[0] != "build" || out == "" {
		return fmt.Errorf("cannot run go %q: in a booted node it is go build with -o only", args)
	}
	if !strings.HasSuffix(out, "/") {
		return buildOne(append(flags, packages...), out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, name := range packages {
		if err := buildOne(append(slices.Clone(flags), name), filepath.Join(out, path.Base(name))); err != nil {
			return err
		}
	}
	return nil
}

// modulePath is the import path of the module.
const modulePath = "github.com/croft-edge/croft"

// buildOne has the host build one program.
func buildOne(args []string, out string) error {
	request := wire.Request{ID: rand.Text(), Arguments: args}
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if name == "GOARCH" || name == "CGO_ENABLED" {
			request.Environment = append(request.Environment, setting)
		}
	}
	if err := where(&request); err != nil {
		return err
	}
	port, err := openPort(wire.BuildPort)
	if err != nil {
		return err
	}
	defer port.Close()
	if err := wire.Write(port, request); err != nil {
		return err
	}
	var answer wire.Answer
	for answer.ID != request.ID { // others are of requests whose process was killed
		answer = wire.Answer{}
		if err := wire.Read(port, &answer); err != nil {
			return err
		}
	}
	_, _ = os.Stderr.WriteString(answer.Printed)
	if answer.Failed {
		return errors.New("cannot build it")
	}
	return os.WriteFile(out, answer.Program, 0o755) //nolint:gosec // a program
}

// where says where the sources are: in the module, or in the working folder, which then has all of them.
func where(request *wire.Request) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(wire.SourceAt, dir); err == nil && filepath.IsLocal(rel) {
		request.Folder = rel
		return nil
	}
	request.Files = map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		request.Files[e.Name()] = raw
	}
	return nil
}
