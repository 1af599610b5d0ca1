package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
)

// build has the host build a program: it does what go build with the option -o does.
func build(args []string) error {
	request := wire.Request{ID: rand.Text()}
	out := ""
	for i := 0; i < len(args); i++ {
		if args[i] == "-o" && i+1 < len(args) {
			out = args[i+1]
			i++
			continue
		}
		request.Arguments = append(request.Arguments, args[i])
	}
	if len(args) == 0 || args[0] != "build" || out == "" {
		return fmt.Errorf("cannot run go %q: in a booted node it is go build with -o only", args)
	}
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
