package imagebuild

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// File is a file or a symbolic link of a package.
type File struct {
	// Path is its place in the root folder, relative, and from where it is now.
	Path, From string
	// Owner is the package's name.
	Owner string
	// Target is a link's, a place in the root folder too; empty for a file.
	Target string
}

// libraryFolders are where Debian's dynamic linker looks for libraries without a cache or a configuration.
func libraryFolders() []string { return []string{"usr/lib/x86_64-linux-gnu", "usr/lib"} }

// Place is where a path lies in a root folder whose /bin, /sbin, /lib and /lib64 are links to those in /usr: relative,
// and cleaned.
func Place(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(mergedFolders(), first) {
		return "usr/" + name
	}
	return name
}

// mergedFolders are the folders whose content lies in /usr.
func mergedFolders() []string { return []string{"bin", "lib", "lib64", "sbin"} }

// find looks for a place in packages, of which older ones also have what lies outside of /usr.
func find(packages []Package, at string) (File, error) {
	for _, p := range packages {
		for _, name := range []string{at, strings.TrimPrefix(at, "usr/")} {
			from := filepath.Join(p.Dir, name)
			info, err := os.Lstat(from)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return File{}, err
			}
			f := File{Path: at, From: from, Owner: p.Name}
			switch {
			case info.Mode().IsRegular():
				return f, nil
			case info.Mode()&fs.ModeSymlink != 0:
				target, err := os.Readlink(from)
				if err != nil {
					return File{}, err
				}
				if !path.IsAbs(target) {
					target = path.Join(path.Dir(name), target)
				}
				f.Target = Place(target)
				return f, nil
			}
		}
	}
	return File{}, fmt.Errorf("cannot find /%s: no package has it: %w", at, fs.ErrNotExist)
}

// Closure are files of packages with all that they need to run: the targets of links, and for programs and libraries the
// dynamic linker and the libraries that they name, those of these too. They are sorted by their paths.
func Closure(packages []Package, paths []string) ([]File, error) {
	have := map[string]File{}
	for queue := slices.Clone(paths); len(queue) > 0; queue = queue[1:] {
		at := Place(queue[0])
		if _, ok := have[at]; ok {
			continue
		}
		f, err := find(packages, at)
		if err != nil {
			return nil, err
		}
		have[at] = f
		if f.Target != "" {
			queue = append(queue, f.Target)
			continue
		}
		needs, err := needsOf(f.From)
		if err != nil {
			return nil, err
		}
		if needs.linker != "" {
			queue = append(queue, needs.linker)
		}
		for _, library := range needs.libraries {
			l, err := findLibrary(packages, library)
			if err != nil {
				return nil, fmt.Errorf("cannot have /%s: %w", at, err)
			}
			queue = append(queue, l.Path)
		}
	}
	out := make([]File, 0, len(have))
	for _, f := range have {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Below are the paths of all files and links that packages have below a folder, sorted.
func Below(packages []Package, folder string) ([]string, error) {
	have := map[string]bool{}
	for _, p := range packages {
		for _, name := range []string{Place(folder), strings.TrimPrefix(Place(folder), "usr/")} {
			err := filepath.WalkDir(filepath.Join(p.Dir, name), func(at string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				below, err := filepath.Rel(p.Dir, at)
				have["/"+Place(below)] = true
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("cannot find /%s: no package has anything there", Place(folder))
	}
	return slices.Sorted(maps.Keys(have)), nil
}

func findLibrary(packages []Package, name string) (File, error) {
	for _, dir := range libraryFolders() {
		f, err := find(packages, path.Join(dir, name))
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return File{}, fmt.Errorf("no package has the library %s in %v", name, libraryFolders())
}

// needs are what a program or library names: the dynamic linker's path and the names of libraries.
type needs struct {
	linker    string
	libraries []string
}

// needsOf are a file's needs: none unless it is a program or a library.
func needsOf(name string) (needs, error) {
	file, err := os.Open(name)
	if err != nil {
		return needs{}, err
	}
	defer file.Close()
	magic := make([]byte, len(elf.ELFMAG))
	if n, _ := io.ReadFull(file, magic); string(magic[:n]) != elf.ELFMAG {
		return needs{}, nil
	}
	out, err := readNeeds(file)
	if err != nil {
		return needs{}, fmt.Errorf("cannot read what %s needs: %w", name, err)
	}
	return out, nil
}

func readNeeds(file io.ReaderAt) (needs, error) {
	e, err := elf.NewFile(file)
	if err != nil {
		return needs{}, err
	}
	if e.Machine != elf.EM_X86_64 {
		return needs{}, fmt.Errorf("it is for %s, must be for %s", e.Machine, elf.EM_X86_64)
	}
	if e.Type != elf.ET_EXEC && e.Type != elf.ET_DYN { // a kernel module
		return needs{}, nil
	}
	var out needs
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			text, err := io.ReadAll(p.Open())
			if err != nil {
				return needs{}, err
			}
			out.linker = string(bytes.TrimRight(text, "\x00"))
		}
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		dirs, err := e.DynString(tag)
		if err != nil {
			return needs{}, err
		}
		if len(dirs) > 0 {
			return needs{}, fmt.Errorf("it looks for libraries in folders of its own, %v: only Debian's folders are searched", dirs)
		}
	}
	out.libraries, err = e.ImportedLibraries()
	return out, err
}
