package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Bind is a folder or file of the node that is mounted in a container.
type Bind struct {
	// Source is its path on the node, Target that in the container: an absolute
	// one, resolved inside the root, whatever links lie on the way.
	Source string
	Target string
	// ReadOnly mounts it so. File says that it is a file, else it is a folder.
	ReadOnly bool
	File     bool
	// Mapped mounts it id-mapped: on disk its files carry the container's IDs.
	Mapped bool
}

// File is a file that is mounted read-only in a container. It may not be
// possible to run it: the node's run folder often is mounted without that.
type File struct {
	Target  string
	Content []byte
}

// Spec describes a container's root file system.
type Spec struct {
	// ID is the reservation's, User owns it.
	ID   string
	User string
	// Lower are the folders of the image's layers, topmost first.
	Lower []string
	// Layer is the folder of the files that the container writes beside its
	// volumes. Nothing else uses it.
	Layer string
	Binds []Bind
	Files []File
}

// The bounds of a Spec. The kernel takes 500 layers; paths are in bytes.
const (
	mostLayers = 500
	mostMounts = 256
	longest    = 1024
)

// normal is s checked, with plain paths, and binds and files in the order of
// their targets. It doesn't touch the file system.
func (s Spec) normal() (Spec, error) {
	if err := validID(s.ID); err != nil {
		return s, err
	}
	if n := len(s.Lower); n == 0 || n > mostLayers {
		return s, s.invalid("Lower", "it has %d layers, 1 to %d are allowed", n, mostLayers)
	}
	if n := len(s.Binds) + len(s.Files); n > mostMounts {
		return s, s.invalid("Binds", "it has %d binds and files, %d are allowed", n, mostMounts)
	}
	s.Lower, s.Binds, s.Files = slices.Clone(s.Lower), slices.Clone(s.Binds), slices.Clone(s.Files)
	seen := map[string]bool{}
	for i, l := range s.Lower {
		s.Lower[i] = filepath.Clean(l)
		if !filepath.IsAbs(l) || seen[s.Lower[i]] {
			return s, s.invalid("Lower", "%q must be an absolute path, and each only once", l)
		}
		seen[s.Lower[i]] = true
	}
	s.Layer = filepath.Clean(s.Layer)
	if !filepath.IsAbs(s.Layer) || len(s.Layer) > longest || strings.ContainsAny(s.Layer, ",:\\\"\n\t\x00") {
		return s, s.invalid("Layer", "%.64q must be an absolute path of at most %d bytes without , : \\ \" and control characters", s.Layer, longest)
	}
	return s, s.normalMounts()
}

func (s Spec) normalMounts() (err error) {
	targets := map[string]bool{}
	for i := range s.Binds {
		b := &s.Binds[i]
		if !filepath.IsAbs(b.Source) {
			return s.invalid("Binds.Source", "%q must be an absolute path", b.Source)
		}
		if b.Target, err = s.target(b.Target, targets); err != nil {
			return err
		}
	}
	for i := range s.Files {
		if s.Files[i].Target, err = s.target(s.Files[i].Target, targets); err != nil {
			return err
		}
	}
	slices.SortFunc(s.Binds, func(a, b Bind) int { return before(a.Target, b.Target) })
	slices.SortFunc(s.Files, func(a, b File) int { return before(a.Target, b.Target) })
	return nil
}

// before orders targets: a folder comes before its content.
func before(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) }

// target is a target without "..". It refuses texts that are wrong whatever the
// file system holds; links on the target's way are followed when it is mounted.
func (s Spec) target(t string, seen map[string]bool) (string, error) {
	clean := path.Clean(t)
	switch {
	case !path.IsAbs(t), len(t) > longest, strings.ContainsRune(t, 0):
		return "", s.invalid("Target", "%.64q must be an absolute path of at most %d bytes", t, longest)
	case slices.Contains(strings.Split(t, "/"), ".."):
		return "", s.invalid("Target", "%q holds \"..\", which isn't allowed", t)
	case clean == "/":
		return "", s.invalid("Target", "%q is the root itself", t)
	case kernels(strings.Split(clean, "/")[1]):
		return "", s.invalid("Target", "%q is the kernel's: nothing is mounted at or below /proc, /sys and /dev", t)
	case seen[clean]:
		return "", s.invalid("Target", "%q is asked for twice", t)
	}
	seen[clean] = true
	return clean, nil
}

// kernels is whether a folder of the root is filled by the kernel.
func kernels(name string) bool { return name == "proc" || name == "sys" || name == "dev" }

func (s Spec) invalid(field, format string, args ...any) error {
	return node.Errorf(node.Invalid, "cannot make container %s: "+field+" "+format, append([]any{s.ID}, args...)...)
}

// digest tells specs apart.
func (s Spec) digest(r Range) (string, error) {
	raw, err := json.Marshal(struct {
		Spec  Spec
		Range Range
	}{s, r})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// inOrder sorts mounts so that a folder comes before its content.
func inOrder(mounts []Bind) []Bind {
	slices.SortStableFunc(mounts, func(a, b Bind) int { return before(a.Target, b.Target) })
	return mounts
}
