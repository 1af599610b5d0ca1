package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/internal/testing/initrd"
)

// kernel is an unpacked kernel package.
type kernel struct {
	// version is as uname -r has it.
	version string
	// image is the bzImage's path, modules that of the folder with all modules.
	image, modules string
}

// firstModules are what the initrd loads before it has the root disk: the buses of both kinds of machines, the disk, the
// root file system, and the overlay above it. Modules that these need come too, such as squashfs's decompressor; those
// built into the kernel don't.
func firstModules() []string {
	return []string{"virtio_pci", "virtio_mmio", "virtio_blk", "squashfs", "overlay"}
}

func openKernel(dir string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return kernel{}, fmt.Errorf("cannot find the kernel in %s/boot: it has %d files vmlinuz-*", dir, len(images))
	}
	k := kernel{version: strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-"), image: images[0]}
	for _, name := range []string{"usr/lib/modules", "lib/modules"} {
		k.modules = filepath.Join(dir, name, k.version)
		if info, err := os.Stat(k.modules); err == nil && info.IsDir() {
			return k, nil
		}
	}
	return kernel{}, fmt.Errorf("cannot find the modules of kernel %s in %s", k.version, dir)
}

// install copies all modules into the root folder, uncompressed, and lets depmod describe them.
func (k kernel) install(ctx context.Context, r rootFolder, run runner) error {
	to := "/lib/modules/" + k.version
	packed := 0
	err := filepath.WalkDir(k.modules, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if strings.HasSuffix(name, ".ko.xz") {
			packed++
		}
		at, err := filepath.Rel(k.modules, name)
		if err != nil {
			return err
		}
		return r.copy(filepath.Join(to, at), name)
	})
	if err != nil {
		return err
	}
	if packed > 0 {
		if _, err := run(ctx, "", "find", r.at(to), "-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+"); err != nil {
			return err
		}
	}
	_, err = run(ctx, "", "depmod", "-b", string(r), k.version)
	return err
}

// first are the modules of the initrd, each after those that it needs. The root folder has all modules.
func (k kernel) first(r rootFolder) ([]initrd.Module, error) {
	dir := r.at("/lib/modules/" + k.version)
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
	chosen, err := withNeeds(files, namesOf(strings.Fields(string(builtIn))), firstModules())
	if err != nil {
		return nil, err
	}
	modules := map[string]initrd.Module{}
	for name, f := range chosen {
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

// withNeeds are the wanted modules that aren't built in, and those that they need.
func withNeeds(files map[string]moduleFile, builtIn map[string]bool, wanted []string) (map[string]moduleFile, error) {
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
