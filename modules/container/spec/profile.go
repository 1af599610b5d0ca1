package spec

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// ProfileName is the AppArmor profile of croft's containers.
const ProfileName = "croft-container"

const (
	// appArmorFolder is the kernel's interface to its profiles, below /sys.
	appArmorFolder = "kernel/security/apparmor"
	// parserName is the program that loads profiles.
	parserName = "apparmor_parser"
)

// parserTimeout bounds a run of apparmor_parser, which takes some tenths of a second.
const parserTimeout = 30 * time.Second

// LoadProfile loads the AppArmor profile of containers where the machine has
// AppArmor, in the place of one that an earlier croft has loaded, and returns the
// host with it. Elsewhere it does nothing.
func LoadProfile(h Host) (Host, error) {
	if !h.AppArmor {
		return h, nil
	}
	if err := load(); err != nil {
		return h, err
	}
	h.Profile = ProfileName
	return h, nil
}

// load loads the profile into the kernel.
func load() error {
	text, err := machine("/").profile()
	if err == nil {
		err = parse(text, "--replace", "--skip-cache")
	}
	return errors.Wrap(err, "cannot load the AppArmor profile of containers")
}

// findParser finds apparmor_parser, also where PATH leaves out the administrator's programs.
func findParser() (path string, err error) {
	for _, dir := range []string{"", "/usr/sbin", "/sbin"} {
		if path, err = exec.LookPath(filepath.Join(dir, parserName)); err == nil {
			return path, nil
		}
	}
	return "", errors.Errorf("cannot find %s in PATH, /usr/sbin or /sbin", parserName)
}

// parse has apparmor_parser read a profile.
func parse(profile string, options ...string) error {
	parser, err := findParser()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), parserTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, parser, options...)
	cmd.Stdin = strings.NewReader(profile)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Wrapf(err, "apparmor_parser refuses it: %.512q", bytes.TrimSpace(out))
	}
	return nil
}

// machine is the root folder of the machine whose AppArmor is asked.
type machine string

// surroundings are the machine's part of the profile.
type surroundings struct {
	// Version, Variables and Basics are AppArmor's own files, as far as the machine has them: the version of the language, variables such as
	// @{PROC}, and what every program needs.
	Version, Variables, Basics string
	// Agent is the profile that croft runs under, and containerd and runc with it.
	Agent string
}

// profileForm is the form of a profile's name that can be quoted.
var profileForm = regexp.MustCompile(`^[^"\\\x00-\x1f\x7f]{1,512}$`)

// surroundings reads the machine's part.
func (m machine) surroundings() (surroundings, error) {
	s := surroundings{Variables: "@{PROC} = /proc/", Agent: "unconfined"}
	for file, use := range map[string]func(){
		"abi/3.0":           func() { s.Version = "abi <abi/3.0>," },
		"tunables/global":   func() { s.Variables = "include <tunables/global>" },
		"abstractions/base": func() { s.Basics = "include <abstractions/base>" },
	} {
		if _, err := os.Stat(filepath.Join(string(m), "etc/apparmor.d", file)); err == nil {
			use()
		}
	}
	raw, err := os.ReadFile(filepath.Join(string(m), "proc/self/attr/current"))
	if err != nil {
		return s, nil //nolint:nilerr // the kernel tells no profile: there is none
	}
	// Such as "unconfined", or "croftd (enforce)".
	name, _, _ := strings.Cut(strings.TrimRight(string(raw), "\n\x00"), " (")
	if name != "" {
		s.Agent = name
	}
	if !profileForm.MatchString(s.Agent) {
		return s, errors.Errorf("croft runs under the profile %q, whose name can't be quoted", s.Agent)
	}
	return s, nil
}

// profile is the text of the profile. It keeps a container from the machine as a whole, also where a fault of the kernel or of the runtime
// gives it more than its other limits would: it may use files, the network and its capabilities, but mounts nothing, writes no setting of the kernel,
// reads no memory of it, and traces and signals none but its own kind.
func (m machine) profile() (string, error) {
	s, err := m.surroundings()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`%s
%s

profile %s flags=(attach_disconnected, mediate_deleted) {
  %s

  file,
  network,
  capability,
  umount,
  deny mount,

  # Who ends containers, and containers' own processes.
  signal (receive) peer=unconfined,
  signal (receive) peer=runc,
  signal (receive) peer=%q,
  signal (send, receive) peer=%s,
  ptrace (trace, tracedby, read, readby) peer=%s,

  # Only what belongs to a process may be written in /proc: its folder's name begins with a digit.
  deny @{PROC}/* w,
  deny @{PROC}/[^1-9]*/** w,
  deny @{PROC}/sysrq-trigger rwklx,
  deny @{PROC}/kcore rwklx,

  # Control groups are the container's own where it may write to any.
  deny /sys/[^f]*/** wklx,
  deny /sys/f[^s]*/** wklx,
  deny /sys/fs/[^c]*/** wklx,
  deny /sys/firmware/** rwklx,
  deny /sys/devices/virtual/powercap/** rwklx,
  deny /sys/kernel/security/** rwklx,
}
`, s.Version, s.Variables, ProfileName, s.Basics, s.Agent, ProfileName, ProfileName), nil
}
