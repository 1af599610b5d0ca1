package runc

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// Program is runc's name in the PATH, enterProgram that of the program that enters namespaces.
const (
	Program      = "runc"
	enterProgram = "nsenter"
)

// Wrapper is the script that containerd starts as the runtime. It becomes runc, in the mount
// namespace of the container that is created.
type Wrapper struct {
	// Path is where it lies.
	Path string
	// Runc and Enter are the programs that it starts.
	Runc, Enter string
	// Containers is the folder in which each container has a folder with its mount namespace.
	Containers string
	// Limits are commands of the shell that set limits of runc and so of the containers.
	Limits []string
}

// FindEnter looks for nsenter in the PATH. Refused when there is none.
func FindEnter() (string, error) {
	path, err := exec.LookPath(enterProgram)
	if err != nil {
		return "", node.Errorf(node.Refused, "cannot run containers: %w: install util-linux", err)
	}
	return path, nil
}

// Install writes the script and tries it. Refused when it, or runc by nsenter, can't be run.
func (w Wrapper) Install(ctx context.Context) error {
	if err := atomicfile.WriteFile(w.Path, []byte(w.text()), 0o700); err != nil {
		return errors.Wrap(err, "cannot write the wrapper of runc")
	}
	for _, command := range [][]string{{w.Path, "--version"}, {w.Enter, "--mount=/proc/self/ns/mnt", "--", w.Runc, "--version"}} {
		if err := try(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// try runs a command. A process that another thread forks meanwhile has the script open for writing
// until it executes its program: until then the script can't be run.
func try(ctx context.Context, command []string) error {
	for pause := time.Millisecond; ; pause *= 2 {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return node.WithKind(node.Transient, errors.Wrapf(ctx.Err(), "cannot try %s", command[0]))
		}
		if !errors.Is(err, unix.ETXTBSY) || pause > time.Second {
			return node.Errorf(node.Refused, "cannot run containers: %s can't be run: %w (%.200q): is its file system mounted noexec?", command[0], err, out)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// text is the script. "runc … create … ID" runs in the mount namespace of the container ID.
func (w Wrapper) text() string {
	lines := append([]string{"#!/bin/sh"}, w.Limits...)
	lines = append(lines,
		"create= id=",
		`for word; do`,
		`	[ "$word" = create ] && create=yes`,
		`	id=$word`,
		`done`,
		`[ -z "$create" ] || exec `+quoted(w.Enter)+` --mount=`+rootfs.MountNS(quoted(w.Containers)+`/"$id"`)+` -- `+quoted(w.Runc)+` "$@"`,
		`exec `+quoted(w.Runc)+` "$@"`)
	return strings.Join(lines, "\n") + "\n"
}

// quoted quotes a word of a shell script.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
