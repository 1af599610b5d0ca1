package main

import (
	"debug/buildinfo"
	"fmt"
	"path"
	"runtime/debug"
	"strings"

	"github.com/croft-edge/croft/pkg/fileid"
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
// image. Its version is that of its own module, or the given one where that has none, as the module in a source tree.
func readProgram(from, to, version string) (goProgram, error) {
	info, err := buildinfo.ReadFile(from)
	if err != nil {
		return goProgram{}, fmt.Errorf("cannot read the modules of %s: %w", from, err)
	}
	sum, err := fileid.Sum(from)
	if err != nil {
		return goProgram{}, err
	}
	p := goProgram{path: to, name: path.Base(to), version: version, sha256: sum}
	if hasVersion(info.Main) {
		p.version = info.Main.Version
	}
	p.modules, err = modulesOf(info)
	return p, err
}

// modulesOf are the modules that a program is made of, Go's own library among them. A module in a source tree has no
// version, and isn't listed if it is the program's own.
func modulesOf(info *debug.BuildInfo) ([]goModule, error) {
	out := []goModule{{path: "stdlib", version: strings.TrimPrefix(info.GoVersion, "go")}}
	modules := info.Deps
	if hasVersion(info.Main) {
		modules = append([]*debug.Module{&info.Main}, modules...)
	}
	for _, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		if !hasVersion(*m) {
			return nil, fmt.Errorf("cannot list module %s of %s: it has no version", m.Path, info.Path)
		}
		out = append(out, goModule{path: m.Path, version: m.Version, sum: m.Sum})
	}
	return out, nil
}

func hasVersion(m debug.Module) bool { return m.Version != "" && m.Version != "(devel)" }

// moduleVersion is the version of a program's module; empty if it has none of that path.
func (p goProgram) moduleVersion(path string) string {
	for _, m := range p.modules {
		if m.path == path {
			return m.version
		}
	}
	return ""
}
