package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Places of programs in the image; those of containers are in their images.
const (
	initProgram    = "/sbin/init"
	pauseProgram   = "/pause"
	corednsProgram = "/coredns"
	serverProgram  = "/usr/bin/kube-server"
	workerProgram  = "/usr/bin/kube-worker"
)

// partPlaces are the places of the compiled parts; a part's name is the last element.
func partPlaces() []string {
	return []string{
		serverProgram, workerProgram,
		"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/ctr", "/usr/bin/runc",
		"/opt/cni/bin/ptp", "/opt/cni/bin/host-local", "/opt/cni/bin/loopback", "/opt/cni/bin/portmap",
		corednsProgram,
	}
}

// findParts are the compiled parts by their places: those in the folder that the configuration names, or else compiled.
func findParts(ctx context.Context, c config, p *progress) (map[string]string, error) {
	dir := c.parts
	if dir == "" {
		return nil, errors.New("cannot find the parts: -parts names their folder")
	}
	out := map[string]string{}
	for _, at := range partPlaces() {
		out[at] = filepath.Join(dir, path.Base(at))
		if _, err := os.Stat(out[at]); err != nil {
			return nil, fmt.Errorf("cannot find part %s: %w", at, err)
		}
	}
	return out, nil
}

const (
	kubernetesModule = "k8s.io/kubernetes"
	corednsModule    = "github.com/coredns/coredns"
)

// readPrograms reads the modules of parts and of croft's own programs, and the versions of the image from them.
func readPrograms(parts, own map[string]string, croft string) ([]goProgram, versions, error) {
	var out []goProgram
	byPlace := map[string]goProgram{}
	for _, files := range []map[string]string{parts, own} {
		for _, at := range slices.Sorted(maps.Keys(files)) {
			p, err := readProgram(files[at], at, croft)
			if err != nil {
				return nil, versions{}, err
			}
			byPlace[at] = p
			out = append(out, p)
		}
	}
	v := versions{
		kubernetes: byPlace[serverProgram].moduleVersion(kubernetesModule), pause: pauseVersion,
		coredns: strings.TrimPrefix(byPlace[corednsProgram].moduleVersion(corednsModule), "v"),
	}
	if v.kubernetes == "" || v.kubernetes != byPlace[workerProgram].moduleVersion(kubernetesModule) {
		return nil, v, fmt.Errorf("cannot take the parts: Kubernetes is %q in %s and %q in %s", v.kubernetes, serverProgram,
			byPlace[workerProgram].moduleVersion(kubernetesModule), workerProgram)
	}
	if v.coredns == "" {
		return nil, v, errors.New("cannot take the parts: CoreDNS has no version")
	}
	v.image = imageVersion(v.kubernetes, croft)
	return out, v, nil
}

// readVariables reads a file with lines NAME=VALUE, whose values may be in quotes.
func readVariables(file string) (map[string]string, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			out[name] = strings.Trim(value, `"'`)
		}
	}
	return out, lines.Err()
}
