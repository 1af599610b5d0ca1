package spec

import (
	"maps"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// The kernel's limits of arguments and variables: of one text, and of all
	// texts with a pointer each, a quarter of the stack. A tenth of
	// that is left to the kernel's own data.
	maxText, maxTexts = 128<<10 - 1, stackSize / 4 * 9 / 10
)

// NewProcess is the first process of a container of an image whose files are
// below root. entrypoint replaces the image's entry point and command when not
// empty; env goes over the image's. The user and its groups are looked up in the
// files of the image. Invalid when the image can't be run so.
func NewProcess(image ocispec.ImageConfig, entrypoint []string, env map[string]string, root string) (Process, error) {
	p := Process{Args: entrypoint, Cwd: path.Join("/", image.WorkingDir)}
	if len(p.Args) == 0 {
		p.Args = slices.Concat(image.Entrypoint, image.Cmd)
	}
	if len(p.Args) == 0 {
		return Process{}, node.Errorf(node.Invalid, "cannot start the image: it has neither an entry point nor a command, must be given one in entrypoint")
	}
	who, err := lookUp(image.User, root)
	if err != nil {
		return Process{}, err
	}
	p.UID, p.GID, p.Groups = who.uid, who.gid, who.groups
	if p.Env, err = environment(image.Env, env, who.home); err != nil {
		return Process{}, err
	}
	if err := checkCwd(root, p.Cwd); err != nil {
		return Process{}, err
	}
	return p, p.validate()
}

// environment is the image's, with env over it. An entry of the image that isn't
// NAME=value says nothing and is left out.
func environment(image []string, env map[string]string, home string) ([]string, error) {
	out := []string{"PATH=" + defaultPath, "HOME=" + home}
	for _, entry := range image {
		if strings.Index(entry, "=") > 0 {
			out = over(out, []string{entry})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, node.Errorf(node.Invalid, "cannot set the environment variable %q: must be a name without = and zero characters", name)
		}
		out = over(out, []string{name + "=" + env[name]})
	}
	return out, nil
}

// validate is Invalid for a process that the kernel would refuse, or run as another one.
// It never shows a value of the environment: it may be a secret.
func (p Process) validate() error {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return node.Errorf(node.Invalid, "cannot start a process: it has no program to run")
	}
	total := 0
	for _, arg := range p.Args {
		total += len(arg) + 1 + 8
		if strings.ContainsRune(arg, 0) || len(arg) >= maxText {
			return node.Errorf(node.Invalid, "cannot start %.80q: an argument has %d bytes, must have less than %d and no zero characters", p.Args[0], len(arg), maxText)
		}
	}
	for _, entry := range p.Env {
		total += len(entry) + 1 + 8
		name, _, there := strings.Cut(entry, "=")
		if !there || name == "" || strings.ContainsRune(entry, 0) || len(entry) >= maxText {
			return node.Errorf(node.Invalid, "cannot set the environment variable %.80q: it has %d bytes, must be NAME=value of less than %d bytes without zero characters", name, len(entry), maxText)
		}
	}
	if total > maxTexts {
		return node.Errorf(node.Invalid, "cannot start %.80q: its arguments and environment take %d bytes, at most %d are allowed", p.Args[0], total, maxTexts)
	}
	return p.validatePlace()
}

func (p Process) validatePlace() error {
	switch {
	case !path.IsAbs(p.Cwd) || strings.ContainsRune(p.Cwd, 0) || len(p.Cwd) > 4095:
		return node.Errorf(node.Invalid, "cannot start in %.80q: must be an absolute path of at most 4095 bytes", p.Cwd)
	case p.UID >= IDs || p.GID >= IDs:
		return node.Errorf(node.Invalid, "cannot start as user %d and group %d: must be below %d", p.UID, p.GID, IDs)
	}
	for _, g := range p.Groups {
		if g >= IDs {
			return node.Errorf(node.Invalid, "cannot start in group %d: must be below %d", g, IDs)
		}
	}
	return nil
}
