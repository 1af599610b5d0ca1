package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/internal/guest/kmod"
	"github.com/croft-edge/croft/internal/initrd"
)

// Kernel is an unpacked kernel package.
type Kernel struct {
	// Version is as uname -r has it.
	Version string
	// Image is the bzImage's path, modules that of the folder with all modules.
	Image, Modules string
}

// OpenKernel finds the kernel and its modules in the folder of an unpacked package.
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

// folder is where the modules are in the image.
func (k Kernel) folder() string { return "/lib/modules/" + k.Version }

// Install copies all modules into the root folder, uncompressed, and lets depmod describe them.
func (k Kernel) Install(ctx context.Context, r RootFolder, run Runner) error {
	if err := k.copy(r); err != nil {
		return err
	}
	if err := k.unpack(ctx, r, run); err != nil {
		return err
	}
	return k.describe(ctx, r, run)
}

// InstallSome is Install of the modules that the function wanted chooses by their paths, such as
// kernel/drivers/net/tun.ko, and of all that these need or ask for.
func (k Kernel) InstallSome(ctx context.Context, r RootFolder, wanted func(file string) bool, run Runner) error {
	if err := k.copy(r); err != nil {
		return err
	}
	if err := k.describe(ctx, r, run); err != nil {
		return err
	}
	if err := k.prune(r, wanted); err != nil {
		return err
	}
	if err := k.unpack(ctx, r, run); err != nil {
		return err
	}
	if err := k.describe(ctx, r, run); err != nil {
		return err
	}
	// Programs that read these forms aren't in images: kmod's own modprobe does.
	binary, err := filepath.Glob(filepath.Join(r.At(k.folder()), "modules.*.bin"))
	for _, name := range binary {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

func (k Kernel) copy(r RootFolder) error {
	return filepath.WalkDir(k.Modules, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		at, err := filepath.Rel(k.Modules, name)
		if err != nil {
			return err
		}
		return r.Copy(filepath.Join(k.folder(), at), name)
	})
}

// unpack replaces packed modules by what is in them.
func (k Kernel) unpack(ctx context.Context, r RootFolder, run Runner) error {
	packed := false
	err := filepath.WalkDir(r.At(k.folder()), func(name string, _ fs.DirEntry, err error) error {
		packed = packed || strings.HasSuffix(name, ".ko.xz")
		return err
	})
	if err != nil || !packed {
		return err
	}
	_, err = run(ctx, "", "find", r.At(k.folder()), "-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+")
	return err
}

// describe lets depmod write its files, and makes their modes the same under any umask.
func (k Kernel) describe(ctx context.Context, r RootFolder, run Runner) error {
	if _, err := run(ctx, "", "depmod", "-b", string(r), k.Version); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.At(k.folder()))
	for _, e := range entries {
		if e.Type().IsRegular() {
			err = errors.Join(err, os.Chmod(filepath.Join(r.At(k.folder()), e.Name()), 0o644))
		}
	}
	return err
}

// prune removes the modules that aren't wanted, and that no wanted one needs. depmod has described all.
func (k Kernel) prune(r RootFolder, wanted func(file string) bool) error {
	index, err := kmod.Open(r.At(k.folder()))
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, file := range index.Files() {
		if !wanted(file) {
			continue
		}
		steps, err := index.Steps(kmod.Name(file))
		if err != nil {
			return err
		}
		for _, s := range steps {
			kept[s.Path] = true
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("cannot choose modules of kernel %s: none is wanted", k.Version)
	}
	for _, file := range index.Files() {
		if !kept[file] {
			if err := os.Remove(filepath.Join(r.At(k.folder()), file)); err != nil {
				return err
			}
		}
	}
	return removeEmpty(r.At(k.folder()))
}

// removeEmpty removes folders in which nothing is, and returns no error for others.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if entries, err = os.ReadDir(dir); err == nil && len(entries) == 0 {
		return os.Remove(dir)
	}
	return err
}

// WithNeeds are modules and all that they need but for what is built into the kernel, each after what it needs, as an initrd
// has them. They are read from the root folder, in which they are installed.
func (k Kernel) WithNeeds(r RootFolder, names []string) ([]initrd.Module, error) {
	dir := r.At(k.folder())
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
