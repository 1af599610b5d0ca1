package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/internal/initrd"
)

// Kernel is an unpacked kernel package.
type Kernel struct {
	// Version is as uname -r has it.
	Version string
	// Image is the bzImage's path, modules that of the folder with all modules.
	Image, Modules string
}

func OpenKernel(dir string) (Kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return Kernel{}, fmt.Errorf("cannot find the kernel in %s/boot: it has %d files vmlinuz-*", dir, len(images))
	}
	k := Kernel{Version: strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-"), Image: images[0]}
	for _, name := range []string{"usr/lib/modules", "lib/modules"} {
		k.Modules = filepath.Join(dir, name, k.Version)
		if info, err := os.Stat(k.Modules); err == nil && info.IsDir() {
			return k, nil
		}
	}
	return Kernel{}, fmt.Errorf("cannot find the modules of kernel %s in %s", k.Version, dir)
}

// Install copies all modules into the root folder, uncompressed, and lets depmod describe them.
func (k Kernel) Install(ctx context.Context, r RootFolder, run Runner) error {
	to := "/lib/modules/" + k.Version
	packed := 0
	err := filepath.WalkDir(k.Modules, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if strings.HasSuffix(name, ".ko.xz") {
			packed++
		}
		at, err := filepath.Rel(k.Modules, name)
		if err != nil {
			return err
		}
		return r.Copy(filepath.Join(to, at), name)
	})
	if err != nil {
		return err
	}
	if packed > 0 {
		if _, err := run(ctx, "", "find", r.At(to), "-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+"); err != nil {
			return err
		}
	}
	_, err = run(ctx, "", "depmod", "-b", string(r), k.Version)
	return err
}

// WithNeeds are modules and all that they need but for what is built into the kernel, each after what it needs, as an initrd
// has them. They are read from the root folder, in which they are installed.
func (k Kernel) WithNeeds(r RootFolder, names []string) ([]initrd.Module, error) {
	dir := r.At("/lib/modules/" + k.Version)
	text, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	builtIn, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	files, err := parseDependencies(string(text))
	if err != nil {
		return nil, err
	}
	found, err := chosen(files, namesOf(strings.Fields(string(builtIn))), names)
	if err != nil {
		return nil, err
	}
	modules := map[string]initrd.Module{}
	for name, f := range found {
		content, err := os.ReadFile(filepath.Join(dir, f.path))
		if err != nil {
			return nil, err
		}
		modules[name] = initrd.Module{Name: name, Content: content, Needs: f.needs}
	}
	return initrd.Order(modules)
}

// moduleFile is a line of modules.dep: a module's path below its folder, and the names of all modules that it needs.
type moduleFile struct {
	path  string
	needs []string
}

// parseDependencies reads modules.dep; the keys are the modules' names.
func parseDependencies(text string) (map[string]moduleFile, error) {
	out := map[string]moduleFile{}
	for line := range strings.Lines(text) {
		file, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			return nil, fmt.Errorf("cannot read modules.dep: %q has no colon", line)
		}
		m := moduleFile{path: file}
		for _, need := range strings.Fields(needs) {
			m.needs = append(m.needs, moduleName(need))
		}
		out[moduleName(file)] = m
	}
	if len(out) == 0 {
		return nil, errors.New("cannot read modules.dep: it has no line")
	}
	return out, nil
}

// moduleName is the name of the module in a file.
func moduleName(file string) string {
	return initrd.Name(strings.TrimSuffix(filepath.Base(file), ".ko"))
}

func namesOf(files []string) map[string]bool {
	out := map[string]bool{}
	for _, f := range files {
		out[moduleName(f)] = true
	}
	return out
}

// chosen are the wanted modules that aren't built in, and those that they need.
func chosen(files map[string]moduleFile, builtIn map[string]bool, wanted []string) (map[string]moduleFile, error) {
	out := map[string]moduleFile{}
	for _, name := range wanted {
		f, ok := files[name]
		switch {
		case ok:
		case builtIn[name]:
			continue
		default:
			return nil, fmt.Errorf("cannot find module %s: the kernel has none", name)
		}
		out[name] = f
		for _, need := range f.needs {
			if out[need], ok = files[need]; !ok {
				return nil, fmt.Errorf("cannot find module %s, which %s needs", need, name)
			}
		}
	}
	return out, nil
}
