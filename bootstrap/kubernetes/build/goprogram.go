package main

import (
	"debug/buildinfo"
	"fmt"
	"path"
	"strings"
)

// goProgram is a program of the image that is compiled from Go modules.
type goProgram struct {
	// path is its place in the image; name is the last part.
	path, name, version string
	// sha256 is the hash of the program.
	sha256  string
	modules []goModule
	// linked are the Debian packages whose C libraries are in it, as they are installed on the machine that compiles.
	linked []debianPackage
}

// goModule is a module of a version; sum is its hash in go.sum, empty where the program has none.
type goModule struct {
	path, version, sum string
}

// readProgram reads what the compiler has written into the program at from, which becomes the one at the path to of the
// image. Its version is that of the module that has its package, or the given one for a program of croft's.
func readProgram(from, to, version string) (goProgram, error) {
	info, err := buildinfo.ReadFile(from)
	if err != nil {
		return goProgram{}, fmt.Errorf("cannot read the modules of %s: %w", from, err)
	}
	sum, err := sumOf(from)
	if err != nil {
		return goProgram{}, err
	}
	p := goProgram{path: to, name: path.Base(to), version: version, sha256: sum}
	p.modules = append(p.modules, goModule{path: "stdlib", version: strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m.Path == info.Path || strings.HasPrefix(info.Path, m.Path+"/") {
			p.version = m.Version
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" {
			return goProgram{}, fmt.Errorf("cannot list module %s of %s: it has no version", m.Path, to)
		}
		p.modules = append(p.modules, goModule{path: m.Path, version: m.Version, sum: m.Sum})
	}
	return p, nil
}

// moduleVersion is the version of a program's module; empty if it has none of that path.
func (p goProgram) moduleVersion(path string) string {
	for _, m := range p.modules {
		if m.path == path {
			return m.version
		}
	}
	return ""
}
