package plan

import (
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

var (
	idForm   = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)
	hostForm = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$`)
)

const (
	longestID   = 64
	longestHost = 63
	longestName = 255
	// longestUser leaves room for the prefix in the name of a namespace.
	longestUser = 50
	// leastMemory is the least memory in which runc can start a process.
	leastMemory = 6 << 20
	mostMemory  = 1 << 62
	mostCPU     = 1 << 20
)

// CheckID is Invalid for text that can't be a container's ID.
func CheckID(id string) error {
	if len(id) > longestID || !idForm.MatchString(id) {
		return node.Errorf(node.Invalid, "cannot use container %.80q: ID must be a reservation's, of at most %d letters and digits with single -, _ or . between them", id, longestID)
	}
	return nil
}

// Check is Invalid, and names the field, for a specification of which no container can be made.
func Check(s node.ContainerSpec) error {
	if err := CheckID(s.ID); err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return node.Errorf(node.Invalid, "cannot make container "+s.ID+": "+format, args...)
	}
	switch {
	case len(s.User) > longestUser || !idForm.MatchString(s.User):
		return wrong("User is %.80q, must be a user's ID", s.User)
	case s.CPU == 0 || s.CPU > mostCPU:
		return wrong("CPU is %d, must be at least 1 core and at most %d", s.CPU, mostCPU)
	case s.Memory < leastMemory || s.Memory > mostMemory:
		return wrong("Memory is %d bytes, must be at least %d and at most %d", s.Memory, leastMemory, uint64(mostMemory))
	case !clean(s.Layer):
		return wrong("Layer is %q, must be the absolute path of a file system", s.Layer)
	case len(s.Hostname) > longestHost || !hostForm.MatchString(s.Hostname):
		return wrong("Hostname is %.80q, must be at most %d letters, digits, - and .", s.Hostname, longestHost)
	case s.Interactive && len(s.Terminal) == 0:
		return wrong("Terminal is empty, must hold the container's addresses")
	}
	if err := Claim(s).Valid("make container " + s.ID); err != nil {
		return err
	}
	for _, a := range append(append([]string(nil), s.DNS...), s.Terminal...) {
		if ip, err := netip.ParseAddr(a); err != nil || ip.Zone() != "" {
			return wrong("%.80q in DNS or Terminal isn't an IP address", a)
		}
	}
	for _, name := range s.Names {
		if len(name) > longestName || !hostForm.MatchString(name) {
			return wrong("%.80q in Names isn't a host's name", name)
		}
	}
	for _, env := range []node.Env{s.Env, s.Secrets} {
		for key, value := range env {
			if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value, "\x00") {
				return wrong("Env or Secrets has the variable %.80q, whose name must not be empty or hold = or NUL, and whose value no NUL", key)
			}
		}
	}
	for _, argument := range s.Entrypoint {
		if strings.Contains(argument, "\x00") {
			return wrong("Entrypoint has a NUL in %.80q", argument)
		}
	}
	return checkMounts(s, wrong)
}

func checkMounts(s node.ContainerSpec, wrong func(string, ...any) error) error {
	targets := map[string]bool{}
	for _, m := range s.Mounts {
		switch {
		case len(m.Volume) > longestID || !idForm.MatchString(m.Volume):
			return wrong("Mounts has the volume %.80q, must be a reservation's ID", m.Volume)
		case !clean(m.Source):
			return wrong("Mounts has the source %q, must be the absolute path of a volume", m.Source)
		case !path.IsAbs(m.Target) || path.Clean(m.Target) == "/" || strings.ContainsAny(m.Target, "\x00\n"):
			return wrong("Mounts has the target %.80q, must be an absolute path other than /", m.Target)
		case targets[path.Clean(m.Target)]:
			return wrong("Mounts has the target %.80q twice", m.Target)
		}
		targets[path.Clean(m.Target)] = true
	}
	return nil
}

// clean reports whether p is an absolute path in its shortest form, other than the root.
func clean(p string) bool {
	return filepath.IsAbs(p) && filepath.Clean(p) == p && p != "/" && !strings.ContainsAny(p, "\x00\n")
}
