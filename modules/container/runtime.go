package container

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/google/renameio/v2"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/runc"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

// runtimeProgram and enterProgram are what containers are created with, in the PATH.
const (
	runtimeProgram = "runc"
	enterProgram   = "nsenter"
)

// wrapper is where the script lies that containerd starts as the runtime. The run folder often is mounted
// so that nothing in it can be run.
func (c Config) wrapper() string { return filepath.Join(c.StateDir, "runc") }

// runtimeOptions are what containerd is told of the runtime, which is a program.
func (c Config) runtimeOptions(program string) *runcoptions.Options {
	return &runcoptions.Options{Root: c.runc(), BinaryName: program, ShimCgroup: c.makeShims()}
}

// openRuntime detects what the machine can hold of a container, loads the
// profile where it has AppArmor, and writes the script that containerd
// starts as the runtime. Refused when runc is too old, nsenter isn't there, or the script can't
// be run.
func openRuntime(ctx context.Context, c Config) (host spec.Host, version string, err error) {
	found, err := runc.Find(ctx, runtimeProgram)
	if err != nil {
		return host, "", err
	}
	enter, err := exec.LookPath(enterProgram)
	if err != nil {
		return host, "", node.Errorf(node.Refused, "cannot run containers: %w: install util-linux", err)
	}
	if host, err = spec.Detect(spec.Probe{}); err != nil {
		return host, "", err
	}
	if host, err = spec.LoadProfile(host); err != nil {
		return host, "", err
	}
	text := wrapperText(found.Path, enter, filepath.Join(c.RunDir, "container"), host.SetLimits())
	if err := renameio.WriteFile(c.wrapper(), []byte(text), 0o700); err != nil {
		return host, "", errors.Wrap(err, "cannot write what becomes the runtime of containers")
	}
	for _, try := range [][]string{{c.wrapper(), "--version"}, {enter, "--mount=/proc/self/ns/mnt", "--", found.Path, "--version"}} {
		if err := tryRuntime(ctx, try); err != nil {
			return host, "", err
		}
	}
	return host, found.Version, nil
}

// tryRuntime runs a command. What another thread starts meanwhile has the file open for writing until
// it becomes its program: until then nobody can run it.
func tryRuntime(ctx context.Context, command []string) error {
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

// wrapperText is a shell script that becomes runc. A container's root is in a mount namespace that
// its folder below containers leads to: "runc … create … ID" is to be in that.
func wrapperText(runc, enter, containers string, limits []string) string {
	lines := append([]string{"#!/bin/sh"}, limits...)
	lines = append(lines,
		"create= id=",
		`for word; do`,
		`	[ "$word" = create ] && create=yes`,
		`	id=$word`,
		`done`,
		`[ -z "$create" ] || exec `+quoted(enter)+` --mount=`+rootfs.MountNS(quoted(containers)+`/"$id"`)+` -- `+quoted(runc)+` "$@"`,
		`exec `+quoted(runc)+` "$@"`)
	return strings.Join(lines, "\n") + "\n"
}

// quoted is a word of a shell script.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
