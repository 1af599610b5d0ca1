package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// runner runs a command in a folder and returns what it prints; its errors have what it prints to stderr.
type runner func(ctx context.Context, dir, name string, args ...string) ([]byte, error)

// run is the runner of real commands. They print as in the locale C, and SOURCE_DATE_EPOCH, which changes what some of
// them write, is taken away.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SOURCE_DATE_EPOCH=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.Bytes(), nil
}

// compileOwn compiles a program of croft's own module, whose root is the folder source, statically and so that the same
// source makes the same bytes.
func compileOwn(ctx context.Context, source, dir, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", to, "./"+filepath.ToSlash(dir))
	cmd.Dir = source
	cmd.Env = append(append(os.Environ(), goEnvironment()...), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile %s: %w: %s", dir, err, said)
	}
	return nil
}
