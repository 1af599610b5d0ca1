package initrd

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// Module is a kernel module.
type Module struct {
	// Name is the kernel's, with underscores for hyphens.
	Name string
	// Content is that of the module's file, uncompressed.
	Content []byte
	// Needs are the names of the modules that must be loaded before.
	Needs []string
}

// ReadFolder reads the modules of a folder, its files *.ko; each comes after those that it needs.
func ReadFolder(dir string) ([]Module, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return nil, err
	}
	modules := map[string]Module{}
	for _, name := range names {
		m, err := read(name)
		if err != nil {
			return nil, err
		}
		modules[m.Name] = m
	}
	return Order(modules)
}

// Order sorts modules by their needs, and else by their names.
func Order(modules map[string]Module) ([]Module, error) {
	var out []Module
	done := map[string]bool{}
	var visit func(name string, above []string) error
	visit = func(name string, above []string) error {
		if done[name] {
			return nil
		}
		m, ok := modules[name]
		if !ok || slices.Contains(above, name) {
			return errors.Errorf("cannot order modules: %s, for %v, is missing or needs itself", name, above)
		}
		for _, need := range m.Needs {
			if err := visit(need, append(above, name)); err != nil {
				return err
			}
		}
		done[name] = true
		out = append(out, m)
		return nil
	}
	var names []string
	for name := range modules {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := visit(name, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read reads a module; its section .modinfo has texts such as depends=virtio,virtio_ring.
func read(path string) (Module, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Module{}, err
	}
	m := Module{Name: Name(strings.TrimSuffix(filepath.Base(path), ".ko")), Content: content}
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return Module{}, errors.Wrapf(err, "cannot read module %s", path)
	}
	section := file.Section(".modinfo")
	if section == nil {
		return Module{}, errors.Errorf("cannot read module %s: it has no section .modinfo", path)
	}
	info, err := section.Data()
	if err != nil {
		return Module{}, errors.Wrapf(err, "cannot read module %s", path)
	}
	for text := range strings.SplitSeq(string(info), "\x00") {
		if needs, ok := strings.CutPrefix(text, "depends="); ok && needs != "" {
			for need := range strings.SplitSeq(needs, ",") {
				m.Needs = append(m.Needs, Name(need))
			}
		}
	}
	return m, nil
}

// Name is a module's name as the kernel has it: a file's may have hyphens.
func Name(name string) string { return strings.ReplaceAll(name, "-", "_") }
