package nodeimage

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/internal/nodeimage/verity"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// Format is the version of the manifest's form. Stage 1 refuses another one: it couldn't know what it means.
const Format = 1

// Names of an image's files.
const (
	KernelFile    = "vmlinuz"
	InitrdFile    = "initrd"
	RootFile      = "root.squashfs"
	ManifestFile  = "image.json"
	SignatureFile = "image.json.sig"
	// SBOMFile lists all that the image is made of. It stays beside the image where that was built: no machine has it.
	SBOMFile = "sbom.json"
)

const (
	// MostManifest bounds a manifest, in bytes: it is read before anything of it is trusted.
	MostManifest = 256 << 10
	// mostComponents bounds the list of components.
	mostComponents = 1000
	mostText       = 200
)

// Manifest says what an image is.
type Manifest struct {
	// Format is Format.
	Format int `json:"format"`
	// Version is croft's version, as croftd version shows it.
	Version string `json:"version"`
	// Kernel is the kernel's release, as uname -r shows it.
	Kernel string `json:"kernel"`
	// Built is the date of the newest input in seconds since 1970: no clock of a machine that boots the image is right before it. The same
	// inputs have the same date.
	Built int64 `json:"built"`
	// Files are vmlinuz, initrd and root.squashfs, in this order.
	Files []File `json:"files"`
	// Root describes the hash tree in root.squashfs.
	Root verity.Tree `json:"root"`
	// SBOM is sbom.json, for whoever has that file: machines neither fetch nor hold it. Nil in older manifests.
	SBOM *File `json:"sbom,omitempty"`
	// Components are the parts that people ask about: containerd, runc, QEMU and others. sbom.json has all.
	Components []Component `json:"components"`
}

// File is a file of the image.
type File struct {
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// SHA256 is the hash of its content, 64 hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// Component is a part of the image.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Encode returns the manifest's bytes. It refuses what Decode would refuse.
func (m Manifest) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, errors.Wrap(err, "cannot write an image's manifest")
	}
	return append(raw, '\n'), nil
}

// Decode reads a manifest. It doesn't check its signature.
func Decode(raw []byte) (Manifest, error) {
	if len(raw) > MostManifest {
		return Manifest{}, errors.Errorf("cannot read an image's manifest: it has more than %d bytes", MostManifest)
	}
	// The form first: another one may have other members.
	var form struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(raw, &form); err == nil && form.Format != Format {
		return Manifest{}, errors.Errorf("cannot read an image's manifest: format is %d, must be %d", form.Format, Format)
	}
	var m Manifest
	if err := strictjson.Check(raw, MostManifest); err != nil {
		return Manifest{}, errors.Wrap(err, "cannot read an image's manifest")
	}
	// Members that this croft doesn't know are a newer one's, which is to be installed by this one; the signature covers them.
	if err := json.Unmarshal(raw, &m); err != nil {
		return Manifest{}, errors.Wrap(err, "cannot read an image's manifest")
	}
	return m, m.Validate()
}

// Validate names the wrong field, its value, and what is allowed.
func (m Manifest) Validate() error {
	wrong := func(format string, args ...any) error {
		return errors.Errorf("cannot use an image's manifest: "+format, args...)
	}
	if m.Format != Format {
		return wrong("format is %d, must be %d", m.Format, Format)
	}
	for _, text := range []struct{ field, value string }{{"version", m.Version}, {"kernel", m.Kernel}} {
		if !plain(text.value) {
			return wrong("%s is %q, must be 1 to %d printable characters without spaces", text.field, text.value, mostText)
		}
	}
	if m.Built <= 0 {
		return wrong("built is %d, must be a time in seconds since 1970", m.Built)
	}
	var names []string
	for _, f := range m.Files {
		if err := f.validate(); err != nil {
			return err
		}
		names = append(names, f.Name)
	}
	if want := []string{KernelFile, InitrdFile, RootFile}; !slices.Equal(names, want) {
		return wrong("files are %q, must be %q", names, want)
	}
	if err := m.Root.Validate(); err != nil {
		return err
	}
	if root := m.Files[2]; root.Size != m.Root.FileBytes() {
		return wrong("size of %s is %d, must be %d with its hash tree", root.Name, root.Size, m.Root.FileBytes())
	}
	if m.SBOM != nil {
		if m.SBOM.Name != SBOMFile {
			return wrong("name of sbom is %q, must be %q", m.SBOM.Name, SBOMFile)
		}
		if err := m.SBOM.validate(); err != nil {
			return err
		}
	}
	if len(m.Components) > mostComponents {
		return wrong("there are %d components, must be at most %d", len(m.Components), mostComponents)
	}
	for _, c := range m.Components {
		if !plain(c.Name) || !plain(c.Version) {
			return wrong("component %q has version %q, each must be 1 to %d printable characters without spaces", c.Name, c.Version, mostText)
		}
	}
	return nil
}

// validate checks all but the name.
func (f File) validate() error {
	if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 || f.SHA256 != strings.ToLower(f.SHA256) {
		return errors.Errorf("cannot use an image's manifest: sha256 of %q is %q, must be 64 lower-case hexadecimal digits", f.Name, f.SHA256)
	}
	if f.Size <= 0 {
		return errors.Errorf("cannot use an image's manifest: size of %q is %d, must be more than 0", f.Name, f.Size)
	}
	return nil
}

// plain reports whether a text may be shown on a console and stand in a file's name.
func plain(s string) bool {
	if s == "" || len(s) > mostText {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) < 0
}
