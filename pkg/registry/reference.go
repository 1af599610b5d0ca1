package registry

import (
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"
)

// Reference names a manifest in a registry. Parse makes one.
type Reference struct {
	// Text is the reference with its scheme, the same for all ways to write it.
	Text string
	// Digest is set when the reference has one; its tag then counts for nothing.
	Digest digest.Digest
	// name is the reference for containerd's resolver, host the registry's.
	name, host string
}

// Host is the registry's name as it is written, with its port if it has one.
func (r Reference) Host() string { return r.host }

// Parse parses what follows scheme in text, in the form HOST/NAME:TAG or HOST/NAME@DIGEST, as Docker reads it: without a
// host it is docker.io, without a tag latest. The error says what is wrong, and is for a caller that adds which text.
func Parse(scheme, text string) (Reference, error) {
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return Reference{}, errors.Errorf("it doesn't begin with %s", scheme)
	}
	named, err := reference.ParseNormalizedNamed(rest)
	if err != nil {
		return Reference{}, err
	}
	r := Reference{host: reference.Domain(named)}
	if d, ok := named.(reference.Digested); ok {
		if d.Digest().Algorithm() != digest.SHA256 {
			return Reference{}, errors.New("its digest isn't a sha256")
		}
		r.Digest = d.Digest()
		r.name = reference.TrimNamed(named).Name() + "@" + r.Digest.String()
	} else {
		r.name = reference.TagNameOnly(named).String()
	}
	r.Text = scheme + r.name
	return r, nil
}
