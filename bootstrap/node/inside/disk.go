package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
)

// modulePath is the import path of the module.
const modulePath = "github.com/croft-edge/croft"

// tools are the packages of Debian with what tests call beside what the image has.
func tools() []string {
	return []string{
		"apparmor", "btrfs-progs", "busybox", "ca-certificates", "cryptsetup-bin", "e2fsprogs", "iperf3", "iproute2", "iputils-ping", "kmod",
		"nftables", "openssh-client", "procps", "redis-server", "strace", "util-linux", "wireguard-tools",
	}
}

// Files of the machine's disks, below the folder of a run.
const (
	testDisk    = "test.ext4"
	scratchDisk = "scratch.ext4"
	scratchSize = 24 << 30
)

// makeDisks makes the disk of the tests and an empty one that they write to.
func makeDisks(ctx context.Context, o options, dir string) error {
	files := filepath.Join(dir, "files")
	for _, sub := range []string{"src", "tests", "root"} {
		if err := os.MkdirAll(filepath.Join(files, sub), 0o755); err != nil {
			return err
		}
	}
	kept, err := makeTools(ctx, o.work)
	if err != nil {
		return err
	}
	// mke2fs copies one folder: the tools are linked into it.
	if err := run(ctx, "", "cp", "-al", kept+"/.", filepath.Join(files, "root")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(files, "root/usr/local/bin"), 0o755); err != nil {
		return err
	}
	if err := goBuild(ctx, filepath.Join(files, "run"), "./bootstrap/node/inside/guest"); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(files, "run"), filepath.Join(files, "root/usr/local/bin/go")); err != nil {
		return err
	}
	if err := run(ctx, "", "sh", "-c", `git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "$1"`, "sh", filepath.Join(files, "src")); err != nil {
		return err
	}
	if err := writePlan(ctx, o, files); err != nil {
		return err
	}
	if err := run(ctx, "", "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-L", wire.TestLabel, "-d", files, filepath.Join(dir, testDisk), "8G"); err != nil {
		return err
	}
	if err := os.RemoveAll(files); err != nil {
		return err
	}
	scratch := filepath.Join(dir, scratchDisk)
	if err := os.WriteFile(scratch, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(scratch, scratchSize); err != nil {
		return err
	}
	return run(ctx, "", "mke2fs", "-q", "-t", "ext4", "-m", "0", "-L", wire.ScratchLabel, scratch)
}

// makeTools makes the root folder of the tools, once.
func makeTools(ctx context.Context, work string) (string, error) {
	kept := filepath.Join(work, "tools")
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	say("making a root folder of Debian with the tools of the tests")
	temp := kept + ".new"
	if err := os.RemoveAll(temp); err != nil {
		return "", err
	}
	if err := run(ctx, "", "mmdebstrap", "--quiet", "--variant=minbase", "--include="+strings.Join(tools(), ","), "bookworm", temp); err != nil {
		return "", err
	}
	return kept, os.Rename(temp, kept)
}

// writePlan compiles the tests and says in a file how they are run.
func writePlan(ctx context.Context, o options, files string) error {
	plan := wire.Plan{Within: o.within, Path: modulePath, Arguments: []string{fmt.Sprint("-test.parallel=", o.parallel), fmt.Sprint("-test.count=", o.count)}}
	for _, each := range o.packages {
		pattern, run, named := strings.Cut(each, "=")
		if !named {
			run = o.run
		}
		list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", pattern)
		list.Stderr = os.Stderr
		names, err := list.Output()
		if err != nil {
			return fmt.Errorf("cannot list the packages of %s: %w", pattern, err)
		}
		for name := range strings.FieldsSeq(string(names)) {
			folder := strings.TrimPrefix(strings.TrimPrefix(name, modulePath), "/")
			p := wire.Package{Folder: folder, Test: strings.ReplaceAll(folder, "/", ".") + ".test", Run: run}
			if err := command(ctx, "", "go", "test", "-vet=off", "-ldflags=-w", "-c", "-o", filepath.Join(files, "tests", p.Test), "./"+folder).Run(); err != nil {
				return fmt.Errorf("cannot compile the tests of %s: %w", folder, err)
			}
			plan.Packages = append(plan.Packages, p)
		}
	}
	raw, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(files, wire.PlanFile), raw, 0o644)
}

func goBuild(ctx context.Context, to, what string) error {
	return run(ctx, "", "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", to, what)
}

// command is a command whose programs are static.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}

func run(ctx context.Context, dir, name string, args ...string) error {
	if err := command(ctx, dir, name, args...).Run(); err != nil {
		return fmt.Errorf("cannot run %s: %w", name, err)
	}
	return nil
}
