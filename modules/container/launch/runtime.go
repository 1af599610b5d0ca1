package launch

import (
	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/croft-edge/croft/pkg/logs"
)

// Runtime says how containerd starts runc.
type Runtime struct {
	// Dir is the folder of runc's state.
	Dir string
	// Wrapper is the path of the script that becomes runc, see package runc.
	Wrapper string
	// ShimGroup is the control group of the shims; empty for containerd's own.
	ShimGroup func() string
}

// Options are the runtime options for a program: runc's name or the wrapper.
func (r Runtime) Options(program string) *runcoptions.Options {
	return &runcoptions.Options{Root: r.Dir, BinaryName: program, ShimCgroup: r.ShimGroup()}
}

// pipes are a container's output, which the log carrier reads: this process
// opens none of it.
type pipes logs.FIFOs

// Config implements cio.IO.
func (p pipes) Config() cio.Config { return cio.Config{Stdout: p.Stdout, Stderr: p.Stderr} }

// Cancel implements cio.IO.
func (pipes) Cancel() {}

// Wait implements cio.IO.
func (pipes) Wait() {}

// Close implements cio.IO.
func (pipes) Close() error { return nil }
