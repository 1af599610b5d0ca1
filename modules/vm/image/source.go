package image

import (
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/registry"
)

// scheme begins the references of artifacts.
const scheme = "oci://"

// longestReference bounds a reference, in bytes.
const longestReference = 1024

// Source is where the image comes from: a folder, an artifact, or nowhere (the zero value).
type Source struct {
	folder   string
	artifact registry.Reference
}

// ParseSource reads the operator's setting. The error says what is allowed, and what is wrong.
func ParseSource(text string) (Source, error) {
	no := func(why string) (Source, error) {
		return Source{}, errors.New("an absolute path, oci://REGISTRY/REPOSITORY:TAG, oci://REGISTRY/REPOSITORY@sha256:DIGEST, or empty: " + why)
	}
	switch {
	case text == "":
		return Source{}, nil
	case len(text) > longestReference:
		return no("it is longer than 1024 bytes")
	case filepath.IsAbs(text):
		return Source{folder: filepath.Clean(text)}, nil
	case !strings.HasPrefix(text, scheme):
		return no("it is none of them (flists come later)")
	}
	r, err := registry.Parse(scheme, text)
	if err != nil {
		return no(err.Error())
	}
	// What Docker adds isn't added here: an operator's mistake would lead to strangers' images.
	if !strings.HasPrefix(text, scheme+r.Host()+"/") {
		return no("it names no registry")
	}
	if name := text[strings.LastIndexByte(text, '/')+1:]; !strings.ContainsAny(name, ":@") {
		return no("it names neither a tag nor a digest")
	}
	return Source{artifact: r}, nil
}

// String is the setting.
func (s Source) String() string {
	if s.folder != "" {
		return s.folder
	}
	return s.artifact.Text
}

func (s Source) none() bool { return s == Source{} }

// fetched reports whether the image is an artifact.
func (s Source) fetched() bool { return s.artifact.Text != "" }
