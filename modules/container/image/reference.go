package image

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/croft-edge/croft/pkg/node"
)

// longestReference fits with its key into a label of containerd.
const longestReference = 1024

// labelForm is that of reservations' and users' IDs.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ownForm is that of the names of the node's own images.
var ownForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// target is where a reference leads to: a registry's name, or a path.
type target struct {
	// text is the whole reference, the same for all ways to write it.
	text string
	// name is what containerd's resolver takes, host the registry's; digest is
	// set when the reference has one.
	name, host string
	digest     digest.Digest
	// root is the allowed path, path the rest of it.
	root, path string
}

func (t target) local() bool { return t.name == "" }

// parse reads a user's reference. node.Invalid.
func (c Config) parse(user, text string) (target, error) {
	no := func(why string) (target, error) {
		return target{}, node.Errorf(node.Invalid, "cannot use data.flist %.200q: %s; allowed are docker://HOST/NAME:TAG, docker://HOST/NAME@DIGEST, %s", text, why, c.pathsAllowed())
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
	rest, ok := strings.CutPrefix(text, "docker://")
	if !ok {
		return no("it is neither a docker:// reference nor an absolute path (flist URLs come later)")
	}
	named, err := reference.ParseNormalizedNamed(rest)
	if err != nil {
		return no(err.Error())
	}
	t := target{host: reference.Domain(named)}
	if d, ok := named.(reference.Digested); ok {
		if d.Digest().Algorithm() != digest.SHA256 {
			return no("its digest isn't a sha256")
		}
		t.digest = d.Digest()
		t.name = reference.TrimNamed(named).Name() + "@" + t.digest.String()
	} else {
		t.name = reference.TagNameOnly(named).String()
	}
	t.text = "docker://" + t.name
	return t, nil
}

func (c Config) parsePath(text string, no func(string) (target, error)) (target, error) {
	if filepath.Clean(text) != text || strings.ContainsRune(text, 0) {
		return no("a path has no . or .. and no double slashes")
	}
	for _, root := range c.Paths {
		if rest, ok := strings.CutPrefix(text, strings.TrimSuffix(root, "/")+"/"); ok && rest != "" {
			return target{text: text, root: root, path: rest}, nil
		}
	}
	return no("it isn't below an allowed path")
}

// parseOwn finds one of the node's own images. Refused when this node hasn't it.
func (c Config) parseOwn(name string) (target, error) {
	p, ok := c.Own[name]
	if !ok {
		names := slices.Sorted(maps.Keys(c.Own))
		return target{}, node.Errorf(node.Refused, "cannot use image %s%.100s: its program is not installed on this node, which has %s",
			node.OwnImage, name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return target{text: node.OwnImage + name, root: filepath.Dir(p), path: filepath.Base(p)}, nil
}

func (c Config) pathsAllowed() string {
	if len(c.Paths) == 0 {
		return "and no path on this node"
	}
	return "an OCI layout folder or a tar below " + strings.Join(c.Paths, ", ")
}

// check says what of a spec can't be used. node.Invalid, or node.Refused.
func (c Config) check(spec node.ImageSpec) (target, error) {
	if err := checkLabel(spec.Label); err != nil {
		return target{}, err
	}
	if !labelForm.MatchString(spec.User) {
		return target{}, node.Errorf(node.Invalid, "cannot pull an image: user %.100q must be at most 64 letters and digits", spec.User)
	}
	if spec.Auth != "" && !strings.Contains(spec.Auth, ":") {
		return target{}, node.Errorf(node.Invalid, "cannot use data.image_auth: it must be user:password")
	}
	if err := claimOf(spec).Valid("pull an image for " + spec.Label); err != nil {
		return target{}, err
	}
	return c.parse(spec.User, spec.Reference)
}

func claimOf(spec node.ImageSpec) node.Claim {
	return node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
}

func checkLabel(label string) error {
	if !labelForm.MatchString(label) {
		return node.Errorf(node.Invalid, "cannot use image label %.100q: must be at most 64 letters, digits, - and _", label)
	}
	return nil
}
