// Package environment loads variables from a file into this process's environment, and replaces the
// process by another program. It must never disclose a value.
package environment

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"
)

// Load sets the variables of a file ("NAME=VALUE", a zero byte after each) and overrides existing ones,
// except those in keep.
func Load(path string, keep []string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return errors.Wrap(err, "cannot read the secret variables")
	}
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(raw, []byte{0}), []byte{0}) {
		name, value, ok := strings.Cut(string(entry), "=")
		if len(raw) == 0 || !ok || name == "" {
			return errors.Errorf("cannot read the secret variables: %s isn't a list of them", path)
		}
		if slices.Contains(keep, name) {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return errors.Errorf("cannot set the secret variable %.80q", name) // the error may disclose the value
		}
	}
	return nil
}

// Become replaces this process by the program args[0], looked up in PATH. It returns only on failure.
func Become(args []string) error {
	path, err := exec.LookPath(args[0])
	if err == nil || errors.Is(err, exec.ErrDot) {
		err = syscall.Exec(path, args, os.Environ())
	}
	return errors.Wrapf(err, "cannot start %q", args[0])
}
