package imagebuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Runner runs a command in a folder and returns what it prints; its errors have what it prints to stderr.
type Runner func(ctx context.Context, dir, name string, args ...string) ([]byte, error)

// Run is the runner of real commands. They print as in the locale C, and SOURCE_DATE_EPOCH, which changes what some of
// them write, is taken away.
func Run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
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

// OwnProgram is a program of croft's own module.
type OwnProgram struct {
	// Source is the root folder of croft's source, Dir the program's folder below it.
	Source, Dir string
	// Tags are build tags, and Flags are the linker's beside those that leave out symbols.
	Tags, Flags []string
}

// Compile compiles the program into the file to, statically and so that the same source makes the same bytes.
func (o OwnProgram) Compile(ctx context.Context, to string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=" + strings.Join(append([]string{"-s", "-w"}, o.Flags...), " ")}
	if len(o.Tags) > 0 {
		args = append(args, "-tags="+strings.Join(o.Tags, ","))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", to, "./"+filepath.ToSlash(o.Dir))...)
	cmd.Dir = o.Source
	cmd.Env = append(append(os.Environ(), GoEnvironment()...), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile %s: %w: %s", o.Dir, err, said)
	}
	return nil
}

// GoEnvironment are settings of the go command, so that the builder's own, in the environment or by go env -w, change no program: what is
// empty there would be read from that file.
func GoEnvironment() []string {
	return []string{
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1",
		"CGO_CFLAGS=-O2 -g", "CGO_CXXFLAGS=-O2 -g", "CGO_LDFLAGS=-O2 -g",
	}
}
