package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// Places of programs in the image; those of containers are in their images.
const (
	initProgram    = "/sbin/init"
	pauseProgram   = "/pause"
	corednsProgram = "/coredns"
	serverProgram  = "/usr/bin/kube-server"
	workerProgram  = "/usr/bin/kube-worker"
)

// place is the part's place in the image; that of CoreDNS is in an image of a container.
func (p part) place() string {
	switch p.module {
	case "cni":
		return "/opt/cni/bin/" + p.name
	case "coredns":
		return corednsProgram
	default:
		return "/usr/bin/" + p.name
	}
}

// findParts are the compiled parts by their places: those in the folder that the configuration names, or else compiled.
// Go's build cache has what compiling them takes, and a part in the cache folder that is current isn't linked again.
func findParts(ctx context.Context, c config, p *imagebuild.Progress) (map[string]string, error) {
	dir := c.parts
	if dir == "" {
		dir = filepath.Join(c.cache, "parts")
		if err := compileParts(ctx, c.source, dir, p.Say); err != nil {
			return nil, err
		}
	}
	out := map[string]string{}
	for _, part := range parts() {
		file := filepath.Join(dir, part.name)
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("cannot find part %s: %w", part.name, err)
		}
		out[part.place()] = file
	}
	return out, nil
}

// linkLibraries adds to programs that have C code the packages of the libraries that they are linked with.
func linkLibraries(ctx context.Context, run imagebuild.Runner, programs []imagebuild.Program) error {
	packages, err := imagebuild.InstalledPackages(ctx, run, "libc6-dev", "libseccomp-dev")
	if err != nil {
		return err
	}
	for _, part := range parts() {
		for i := range programs {
			if part.cgo && programs[i].Path == part.place() {
				programs[i].Linked = packages
			}
		}
	}
	return nil
}

const (
	kubernetesModule = "k8s.io/kubernetes"
	corednsModule    = "github.com/coredns/coredns"
)

// readPrograms reads the modules of parts and of croft's own programs, and the versions of the image from them.
func readPrograms(parts, own map[string]string, croft string) ([]imagebuild.Program, versions, error) {
	var out []imagebuild.Program
	// versionOf are the versions of Kubernetes and CoreDNS in their programs, whose own modules have none.
	versionOf := map[string]string{serverProgram: kubernetesModule, workerProgram: kubernetesModule, corednsProgram: corednsModule}
	for _, files := range []map[string]string{parts, own} {
		for _, at := range slices.Sorted(maps.Keys(files)) {
			p, err := imagebuild.ReadProgram(files[at], at, croft)
			if err != nil {
				return nil, versions{}, err
			}
			if module, ok := versionOf[at]; ok {
				p.Version = p.ModuleVersion(module)
				if p.Version == "" {
					return nil, versions{}, fmt.Errorf("cannot take the part %s: it isn't made of %s", at, module)
				}
				versionOf[at] = p.Version
			}
			out = append(out, p)
		}
	}
	if server, worker := versionOf[serverProgram], versionOf[workerProgram]; server != worker {
		return nil, versions{}, fmt.Errorf("cannot take the parts: Kubernetes is %s in %s and %s in %s", server, serverProgram, worker, workerProgram)
	}
	v := versions{kubernetes: versionOf[serverProgram], pause: pauseVersion, coredns: strings.TrimPrefix(versionOf[corednsProgram], "v")}
	v.image = imageVersion(v.kubernetes, croft)
	return out, v, nil
}
