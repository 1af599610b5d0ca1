package plan

import (
	"net"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/croft-edge/croft/modules/container/program"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// terminal is the port of an interactive container's terminal.
	terminal = "7681"
	// initTarget is croft's init in a container, secretsTarget the file of its secret variables.
	initTarget    = "/.croft/init"
	secretsTarget = "/.croft/secrets"
	// endOfOptions is before the user's program in init's arguments.
	endOfOptions = "--"
)

// Options of croft's init in a container with secret variables.
const (
	envOption  = "--env"
	keepOption = "--keep"
	execOption = "--exec"
)

// command is the command line instead of the image's entry
// point and command, empty for these. In an interactive one it is croft's own
// PID 1, which runs the user's program if there is one; in one with secret
// variables croft's init reads them and becomes the user's program.
func command(s node.ContainerSpec, image ocispec.ImageConfig) []string {
	if !needsInit(s) {
		return s.Entrypoint
	}
	args := s.Entrypoint
	if len(args) == 0 {
		args = slices.Concat(image.Entrypoint, image.Cmd)
	}
	first := []string{initTarget}
	if len(s.Secrets) > 0 {
		first = append(first, envOption, secretsTarget)
	}
	switch {
	case !s.Interactive && len(args) == 0:
		return nil // spec.NewProcess refuses it
	case !s.Interactive:
		first = append(first, execOption)
	default:
		first = append(first, "--listen", listen(s.Terminal))
		if len(s.Names) > 0 {
			first = append(first, "--name", strings.Join(s.Names, ","))
		}
	}
	return slices.Concat(first, []string{endOfOptions}, args)
}

// needsInit is whether croft's init starts a container's program.
func needsInit(s node.ContainerSpec) bool { return s.Interactive || len(s.Secrets) > 0 }

// ExecArgs are the arguments of an exec in a container whose first process has the
// arguments first. Where that has secret variables the exec gets them too, but for
// those that env ("NAME=value") sets.
func ExecArgs(first, args, env []string) []string {
	if len(first) < 3 || first[0] != initTarget || first[1] != envOption {
		return args
	}
	out := []string{initTarget, envOption, first[2]}
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		out = append(out, keepOption, name)
	}
	return slices.Concat(out, []string{execOption, endOfOptions}, args)
}

// listen are the addresses at which croft's init serves the terminal: "IP:7681,[IP]:7681".
func listen(addresses []string) string {
	out := make([]string, 0, len(addresses))
	for _, a := range addresses {
		out = append(out, net.JoinHostPort(a, terminal))
	}
	return strings.Join(out, ",")
}

// CheckStartable is Invalid when a container's program, or croft's init before it,
// can't be started in the root that is mounted at a path.
func CheckStartable(at string, ids rootfs.Range, root rootfs.Spec, process *specs.Process) error {
	if err := program.Check(at, ids.Base, process); err != nil {
		return err
	}
	if !slices.ContainsFunc(root.Binds, func(b rootfs.Bind) bool { return b.Target == initTarget }) {
		return nil
	}
	end := slices.Index(process.Args, endOfOptions)
	if end < 0 || end == len(process.Args)-1 {
		return nil // there is only the terminal
	}
	users := *process
	users.Args = process.Args[end+1:]
	return program.Check(at, ids.Base, &users)
}
