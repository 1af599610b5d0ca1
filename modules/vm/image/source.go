package image

import (
	"cmp"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/registry"
)

const (
	// scheme begins the references of artifacts, suffix ends the paths of flists, and pin begins their digests.
	scheme = "oci://"
	suffix = ".fl"
	pin    = "sha256="
)

// longestReference bounds a reference, in bytes.
const longestReference = 1024

// Source is where the image comes from: a folder, an artifact, a flist, or nowhere (the zero value).
type Source struct {
	folder   string
	artifact registry.Reference
	flist    flistReference
}

// flistReference names a flist.
type flistReference struct {
	// url is where it is, host the HOST or HOST:PORT there, and plain whether it is asked over HTTP without TLS.
	url, host string
	plain     bool
	// digest is that of the flist itself, in a reference that has one.
	digest digest.Digest
}

// ParseSource reads the operator's setting. The error says what is allowed, and what is wrong.
func ParseSource(text string) (Source, error) {
	no := func(why string) (Source, error) {
		return Source{}, errors.New("an absolute path, oci://REGISTRY/REPOSITORY:TAG, oci://REGISTRY/REPOSITORY@sha256:DIGEST, " +
			"https://HOST/PATH.fl, https://HOST/PATH.fl#sha256=DIGEST, or empty: " + why)
	}
	switch {
	case text == "":
		return Source{}, nil
	case len(text) > longestReference:
		return no("it is longer than 1024 bytes")
	case filepath.IsAbs(text):
		return Source{folder: filepath.Clean(text)}, nil
	case strings.HasPrefix(text, "https://"), strings.HasPrefix(text, "http://"):
		f, why := parseFlist(text)
		if why != "" {
			return no(why)
		}
		return Source{flist: f}, nil
	case !strings.HasPrefix(text, scheme):
		return no("it is none of them")
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

// parseFlist reads the URL of a flist, or says what is wrong with it.
func parseFlist(text string) (f flistReference, why string) {
	at, pinned, isPinned := strings.Cut(text, "#")
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return f, "it is no URL"
	case u.Hostname() == "":
		return f, "it names no host"
	case u.User != nil:
		return f, "it names a user: passwords aren't supported"
	case u.RawQuery != "" || u.ForceQuery:
		return f, "it has a query"
	case !strings.HasSuffix(u.Path, suffix) || strings.HasSuffix(u.Path, "/"+suffix):
		return f, "its path must end in .fl, the format of rfs"
	}
	f = flistReference{url: u.String(), host: u.Host, plain: u.Scheme == "http"}
	if !isPinned {
		return f, ""
	}
	hex, ok := strings.CutPrefix(pinned, pin)
	f.digest = digest.NewDigestFromEncoded(digest.SHA256, hex)
	if !ok || f.digest.Validate() != nil {
		return f, "after # there must be sha256= and 64 hexadecimal digits in lower case"
	}
	return f, ""
}

// String is the setting.
func (s Source) String() string {
	switch {
	case s.folder != "":
		return s.folder
	case s.flist.digest != "":
		return s.flist.url + "#" + pin + s.flist.digest.Encoded()
	case s.flist.url != "":
		return s.flist.url
	}
	return s.artifact.Text
}

// pinned is the digest of the only version that the source can lead to; empty without one.
func (s Source) pinned() digest.Digest { return cmp.Or(s.artifact.Digest, s.flist.digest) }

func (s Source) none() bool { return s == Source{} }

// fetched reports whether the image is fetched from elsewhere.
func (s Source) fetched() bool { return s.artifact.Text != "" || s.flist.url != "" }
