package imagebuild

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// bom is a software bill of materials in CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/). It has no time and no
// serial number: the same image has the same bytes.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Hashes     []digest   `json:"hashes,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type digest struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// Contents are what an image is made of.
type Contents struct {
	Name, Version string
	// Release is Debian's, such as 12.
	Release  string
	Packages []Package
	Programs []Program
}

// BillOf makes the bill: Debian packages, programs, and the Go modules and C libraries of each program.
func BillOf(c Contents) ([]byte, error) {
	image := component{Type: "operating-system", Ref: "image", Name: c.Name, Version: c.Version}
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{image}}
	top := dependency{Ref: image.Ref}
	known := map[string]component{}
	add := func(c component) error {
		if have, twice := known[c.Ref]; twice {
			if !slices.Equal(have.Hashes, c.Hashes) {
				return fmt.Errorf("cannot list %s: two programs have it with different hashes", c.Ref)
			}
			return nil
		}
		known[c.Ref] = c
		b.Components = append(b.Components, c)
		return nil
	}
	for _, p := range c.Packages {
		if err := add(p.component(c.Release)); err != nil {
			return nil, err
		}
		top.On = append(top.On, p.purl(c.Release))
	}
	for _, p := range c.Programs {
		if err := add(p.component()); err != nil {
			return nil, err
		}
		top.On = append(top.On, p.ref())
		below := dependency{Ref: p.ref()}
		for _, m := range p.Modules {
			made, err := m.component()
			if err != nil {
				return nil, err
			}
			if err := add(made); err != nil {
				return nil, err
			}
			below.On = append(below.On, made.Ref)
		}
		for _, l := range p.Linked {
			if err := add(l.component(c.Release)); err != nil {
				return nil, err
			}
			below.On = append(below.On, l.purl(c.Release))
		}
		b.Dependencies = append(b.Dependencies, below)
	}
	b.Dependencies = append([]dependency{top}, b.Dependencies...)
	if err := b.check(); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(b, "", " ")
	return append(raw, '\n'), err
}

// check holds what CycloneDX wants beside its schema: references that are unique, and lead somewhere.
func (b bom) check() error {
	known := map[string]bool{b.Metadata.Component.Ref: true}
	for _, c := range b.Components {
		if c.Ref == "" || c.Name == "" || known[c.Ref] {
			return fmt.Errorf("cannot list %q, reference %q: it is nameless or listed already", c.Name, c.Ref)
		}
		known[c.Ref] = true
	}
	from := map[string]bool{}
	for _, d := range b.Dependencies {
		if !known[d.Ref] || from[d.Ref] {
			return fmt.Errorf("cannot list what %q depends on: it isn't listed, or twice", d.Ref)
		}
		from[d.Ref] = true
		to := map[string]bool{}
		for _, ref := range d.On {
			if !known[ref] || to[ref] {
				return fmt.Errorf("cannot list that %q depends on %q: it isn't listed, or twice", d.Ref, ref)
			}
			to[ref] = true
		}
	}
	return nil
}

// purl is a package's address, as scanners of vulnerabilities read it (https://github.com/package-url/purl-spec).
func (p Package) purl(release string) string {
	out := "pkg:deb/debian/" + p.Name + "@" + escaped(p.Version) + "?arch=" + p.Architecture + "&distro=debian-" + release
	if p.Source != p.Name || p.SourceVersion != p.Version {
		out += "&upstream=" + escaped(p.Source+"@"+p.SourceVersion)
	}
	return out
}

func (p Package) component(release string) component {
	c := component{Type: "library", Ref: p.purl(release), Name: p.Name, Version: p.Version, PURL: p.purl(release)}
	if p.SHA256 != "" { // one that is installed hasn't its file's any more
		c.Hashes = []digest{{"SHA-256", p.SHA256}}
	}
	return c
}

func (p Program) ref() string { return "program:" + p.Path }

func (p Program) component() component {
	return component{
		Type: "application", Ref: p.ref(), Name: p.Name, Version: p.Version, Hashes: []digest{{"SHA-256", p.SHA256}},
		Properties: []property{{"croft:path", p.Path}},
	}
}

func (m Module) purl() string {
	return "pkg:golang/" + strings.ToLower(m.Path) + "@" + escaped(m.Version)
}

// component has the module's hash of go.sum, which is one of all its files.
func (m Module) component() (component, error) {
	c := component{Type: "library", Ref: m.purl(), Name: m.Path, Version: m.Version, PURL: m.purl()}
	if m.Sum == "" {
		return c, nil
	}
	encoded, ok := strings.CutPrefix(m.Sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != 32 {
		return c, errors.Join(fmt.Errorf("cannot read the hash %q of module %s", m.Sum, m.Path), err)
	}
	c.Hashes = []digest{{"SHA-256", hex.EncodeToString(raw)}}
	return c, nil
}

// escaped is a version as an address has it.
func escaped(version string) string {
	return strings.ReplaceAll(url.QueryEscape(version), "%7E", "~")
}
