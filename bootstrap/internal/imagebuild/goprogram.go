package imagebuild

import (
	"debug/buildinfo"
	"fmt"
	"path"
	"runtime/debug"
	"strings"

	"github.com/croft-edge/croft/pkg/fileid"
)

// Program is a program of the image that is compiled from Go modules.
type Program struct {
	// Path is its place in the image; Name is the last part.
	Path, Name, Version string
	// SHA256 is the hash of the program.
	SHA256  string
	Modules []Module
	// Linked are the Debian packages whose C libraries are in it, as they are installed on the machine that compiles.
	Linked []Package
}

// Module is a module of a version; Sum is its hash in go.sum, empty where the program has none.
type Module struct {
	Path, Version, Sum string
}

// ReadProgram reads what the compiler has written into the program at from, which becomes the one at the path to of the
// image. Its version is that of its own module, or the given one where that has none, as the module in a source tree.
func ReadProgram(from, to, version string) (Program, error) {
	info, err := buildinfo.ReadFile(from)
	if err != nil {
		return Program{}, fmt.Errorf("cannot read the modules of %s: %w", from, err)
	}
	sum, err := fileid.Sum(from)
	if err != nil {
		return Program{}, err
	}
	p := Program{Path: to, Name: path.Base(to), Version: version, SHA256: sum}
	if hasVersion(info.Main) {
		p.Version = info.Main.Version
	}
	p.Modules, err = modulesOf(info)
	return p, err
}

// modulesOf are the modules that a program is made of, Go's own library among them. A module in a source tree has no
// version, and isn't listed if it is the program's own.
func modulesOf(info *debug.BuildInfo) ([]Module, error) {
	out := []Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}
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
		out = append(out, Module{Path: m.Path, Version: m.Version, Sum: m.Sum})
	}
	return out, nil
}

func hasVersion(m debug.Module) bool { return m.Version != "" && m.Version != "(devel)" }

// ModuleVersion is the version of a program's module; empty if it has none of that path.
func (p Program) ModuleVersion(path string) string {
	for _, m := range p.Modules {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
