package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// partsFolder has a folder for each Go module of parts, below the root folder of croft's source. Each module has a
// go.mod and a go.sum of its own, so that the versions that the agent depends on stay apart from these.
const partsFolder = "bootstrap/kubernetes/parts"

// Versions of the parts that tell theirs by a variable that the linker sets. The go.mod of their modules pin the same.
const (
	kubernetesVersion = "v1.36.3"
	containerdVersion = "v2.3.7"
	cniVersion        = "v1.9.1"
)

// part is a program of the image that is compiled from a module below partsFolder.
type part struct {
	// name is the program's file name.
	name string
	// module is the folder of its module, pkg its package: "./…" of that module, or one of a dependency, which the
	// module then names as a tool in its go.mod.
	module, pkg string
	tags        []string
	// variables are the string variables that the linker sets, by their full names.
	variables map[string]string
	// cgo: the program has C code, and is linked by the C compiler. All parts are static.
	cgo bool
}

// parts are all parts, in the order in which they are compiled. Tags leave out what the image does not use: of
// containerd the snapshotters other than overlayfs, and traces; of the Kubernetes programs tests and gRPC's traces,
// as Kubernetes' own builds do.
func parts() []part {
	const containerd, cni = "github.com/containerd/containerd/v2/", "github.com/containernetworking/plugins/"
	kubernetes := func(name string) part {
		const version = "k8s.io/component-base/version."
		return part{
			name: name, module: "kubernetes", pkg: "./cmd/" + name, tags: []string{"notest", "grpcnotrace"},
			variables: map[string]string{
				version + "gitVersion": kubernetesVersion, version + "gitMajor": "1", version + "gitMinor": "36",
				version + "gitCommit": "", version + "gitTreeState": "",
			},
		}
	}
	daemon := func(name string, tags ...string) part {
		static := []string{"netgo", "osusergo", "static_build", "urfave_cli_no_docs", "no_btrfs", "no_devmapper", "no_zfs", "no_tracing"}
		return part{
			name: name, module: "containerd", pkg: containerd + "cmd/" + name, tags: append(static, tags...),
			variables: map[string]string{containerd + "version.Version": containerdVersion},
		}
	}
	plugin := func(kind, name string) part {
		return part{
			name: name, module: "cni", pkg: cni + "plugins/" + kind + "/" + name,
			variables: map[string]string{cni + "pkg/utils/buildversion.BuildVersion": cniVersion},
		}
	}
	return []part{
		kubernetes("kube-server"),
		kubernetes("kube-worker"),
		daemon("containerd"),
		daemon("containerd-shim-runc-v2", "no_grpc"),
		daemon("ctr"),
		{
			name: "runc", module: "runc", pkg: "github.com/opencontainers/runc", cgo: true,
			tags: []string{"netgo", "osusergo", "seccomp", "urfave_cli_no_docs"},
		},
		plugin("main", "ptp"),
		plugin("main", "loopback"),
		plugin("ipam", "host-local"),
		plugin("meta", "portmap"),
		{name: "coredns", module: "coredns", pkg: "."},
	}
}

// compileParts compiles all parts into the folder out, each under its name. root is the root folder of croft's source.
// It tells each part's size and time. Go's build cache has the objects: with a warm one, only the linker runs.
func compileParts(ctx context.Context, root, out string, say func(format string, args ...any)) error {
	for _, p := range parts() {
		if err := p.compile(ctx, root, out, say); err != nil {
			return err
		}
	}
	return nil
}

// compile compiles the part into the folder out. The part that was there stays when it fails.
func (p part) compile(ctx context.Context, root, out string, say func(format string, args ...any)) error {
	began := time.Now()
	to, err := filepath.Abs(filepath.Join(out, p.name))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", p.arguments(to)...)
	cmd.Dir = filepath.Join(root, partsFolder, p.module)
	cmd.Env = append(os.Environ(), p.environment()...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return p.failure(err, said)
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	say("part %s: %s in %.1f s", p.name, imagebuild.Mebibytes(info.Size()), time.Since(began).Seconds())
	return nil
}

// failure names the part, and what a machine needs to compile C code. said is what the go command said.
func (p part) failure(err error, said []byte) error {
	err = fmt.Errorf("cannot compile part %s: %w: %s", p.name, err, strings.TrimSpace(string(said)))
	if p.cgo {
		err = errors.Join(err, errors.New("it needs the packages gcc, libc6-dev, pkg-config and libseccomp-dev"))
	}
	return err
}

// arguments are those of the go command. The same source makes the same bytes, wherever it lies.
func (p part) arguments(to string) []string {
	flags := []string{"-s", "-w"}
	if p.cgo {
		flags = append(flags, "-linkmode=external", "-extldflags=-static")
	}
	for _, name := range slices.Sorted(maps.Keys(p.variables)) {
		flags = append(flags, "-X="+name+"="+p.variables[name])
	}
	return []string{
		"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=" + strings.Join(p.tags, ","),
		"-ldflags=" + strings.Join(flags, " "), "-o", to, p.pkg,
	}
}

// environment is what the go command has beside the environment of this process.
func (p part) environment() []string {
	cgo := "CGO_ENABLED=0"
	if p.cgo {
		cgo = "CGO_ENABLED=1"
	}
	return append(imagebuild.GoEnvironment(), cgo)
}
