package source

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/registry"
)

// longestReference fits with its key into a label of containerd.
const longestReference = 1024

// scheme begins references to registries.
const scheme = "docker://"

// ownForm is the form of the names of the node's own images.
var ownForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Reference is a parsed reference: a name in a registry, or a path. Parse makes one.
type Reference struct {
	// Text is the normalized reference: the same for all ways to write it.
	Text string
	// Digest is set when the reference has one.
	Digest digest.Digest
	// remote is the reference of an image in a registry.
	remote registry.Reference
	// root is the allowed path, path the rest of it.
	root, path string
}

// Local reports whether the image lies on this machine.
func (r Reference) Local() bool { return r.root != "" }

// Parse parses a user's reference. node.Invalid; node.Refused for one of the node's
// own images that this node hasn't.
func (s *Sources) Parse(user, text string) (Reference, error) {
	c := s.cfg
	no := func(why string) (Reference, error) {
		return Reference{}, node.Errorf(node.Invalid, "cannot use data.flist %.200q: %s; allowed are docker://HOST/NAME:TAG, docker://HOST/NAME@DIGEST, %s", text, why, c.pathsAllowed())
	}
	if len(text) > longestReference {
		return no("it is longer than 1024 bytes")
	}
	if filepath.IsAbs(text) {
		return c.parsePath(text, no)
	}
	if name, ok := strings.CutPrefix(text, node.OwnImage); ok && user == node.OwnUser {
		return c.parseOwn(name)
	}
	if !strings.HasPrefix(text, scheme) {
		return no("it is neither a docker:// reference nor an absolute path (flist URLs come later)")
	}
	remote, err := registry.Parse(scheme, text)
	if err != nil {
		return no(err.Error())
	}
	return Reference{Text: remote.Text, Digest: remote.Digest, remote: remote}, nil
}

func (c Config) parsePath(text string, no func(string) (Reference, error)) (Reference, error) {
	if filepath.Clean(text) != text || strings.ContainsRune(text, 0) {
		return no("a path has no . or .. and no double slashes")
	}
	for _, root := range c.Paths {
		if rest, ok := strings.CutPrefix(text, strings.TrimSuffix(root, "/")+"/"); ok && rest != "" {
			return Reference{Text: text, root: root, path: rest}, nil
		}
	}
	return no("it isn't below an allowed path")
}

// parseOwn finds one of the node's own images. Refused when this node hasn't it.
func (c Config) parseOwn(name string) (Reference, error) {
	p, ok := c.Own[name]
	if !ok {
		names := slices.Sorted(maps.Keys(c.Own))
		return Reference{}, node.Errorf(node.Refused, "cannot use image %s%.100s: its program is not installed on this node, which has %s",
			node.OwnImage, name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return Reference{Text: node.OwnImage + name, root: filepath.Dir(p), path: filepath.Base(p)}, nil
}

func (c Config) pathsAllowed() string {
	if len(c.Paths) == 0 {
		return "and no path on this node"
	}
	return "an OCI layout folder or a tar below " + strings.Join(c.Paths, ", ")
}
