package container

import (
	"context"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/container/runc"
	"github.com/croft-edge/croft/modules/container/spec"
)

// runtimeProgram is what containerd starts as the runtime where nothing else is needed.
const runtimeProgram = "runc"

// wrapper is where the script lies that sets limits and becomes the runtime.
func (c Config) wrapper() string { return filepath.Join(c.RunDir, "runc") }

// openRuntime detects what the machine can hold of a container, loads the
// profile where it has AppArmor, and returns with it the program that containerd
// starts as the runtime: runc, or where a container's limits can't be set, a
// script from which it inherits them. Refused when runc is too old.
func openRuntime(ctx context.Context, c Config) (host spec.Host, program, version string, err error) {
	found, err := runc.Find(ctx, runtimeProgram)
	if err != nil {
		return host, "", "", err
	}
	if host, err = spec.Detect(spec.Probe{}); err != nil {
		return host, "", "", err
	}
	if host, err = spec.LoadProfile(host); err != nil {
		return host, "", "", err
	}
	text := host.Wrapper(runtimeProgram)
	if text == "" {
		return host, runtimeProgram, found.Version, nil
	}
	if err := renameio.WriteFile(c.wrapper(), []byte(text), 0o700); err != nil {
		return host, "", "", errors.Wrap(err, "cannot write what sets the limits of containers")
	}
	return host, c.wrapper(), found.Version, nil
}
