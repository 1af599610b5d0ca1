package vmguest

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// module is a kernel module.
type module struct {
	name    string
	content []byte
	// needs are the modules that must be loaded before.
	needs []string
}

// orderedModules reads a folder's modules; each comes after those that it needs.
func orderedModules(dir string) ([]module, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return nil, err
	}
	modules := map[string]module{}
	for _, name := range names {
		m, err := readModule(name)
		if err != nil {
			return nil, err
		}
		modules[m.name] = m
	}
	return order(modules)
}

// order sorts modules by their needs, and else by their names.
func order(modules map[string]module) ([]module, error) {
	var out []module
	done := map[string]bool{}
	var visit func(name string, above []string) error
	visit = func(name string, above []string) error {
		if done[name] {
			return nil
		}
		m, ok := modules[name]
		if !ok || slices.Contains(above, name) {
			return fmt.Errorf("cannot order modules: %s, for %v, is missing or needs itself; bootstrap/guest lists the modules", name, above)
		}
		for _, need := range m.needs {
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

// readModule reads a module; its section .modinfo has texts such as depends=virtio,virtio_ring.
func readModule(path string) (module, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return module{}, err
	}
	m := module{name: plain(strings.TrimSuffix(filepath.Base(path), ".ko")), content: content}
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return module{}, fmt.Errorf("cannot read module %s: %w", path, err)
	}
	section := file.Section(".modinfo")
	if section == nil {
		return module{}, fmt.Errorf("cannot read module %s: it has no section .modinfo", path)
	}
	info, err := section.Data()
	if err != nil {
		return module{}, fmt.Errorf("cannot read module %s: %w", path, err)
	}
	for text := range strings.SplitSeq(string(info), "\x00") {
		if needs, ok := strings.CutPrefix(text, "depends="); ok && needs != "" {
			for need := range strings.SplitSeq(needs, ",") {
				m.needs = append(m.needs, plain(need))
			}
		}
	}
	return m, nil
}

// plain is a module's name as the kernel has it: a file's may have hyphens.
func plain(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Types and permissions in an archive.
const (
	cpioFolder = 0o040755
	cpioFile   = 0o100755
	cpioDevice = 0o020600
)

// initrd is a cpio archive, in format newc (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst),
// of a program as /init, the modules in /modules, whose names are in the order to load them, and /dev/console,
// which the kernel opens for the program.
func initrd(program []byte, modules []module) []byte {
	var a archive
	a.add("dev", cpioFolder, nil, 0)
	a.add("dev/console", cpioDevice, nil, 5<<8|1)
	a.add("init", cpioFile, program, 0)
	a.add("modules", cpioFolder, nil, 0)
	for i, m := range modules {
		a.add(fmt.Sprintf("modules/%02d-%s.ko", i, m.name), cpioFile, m.content, 0)
	}
	a.add("TRAILER!!!", 0, nil, 0)
	return a.Bytes()
}

type archive struct {
	bytes.Buffer
	entries int
}

// add adds an entry; device is major<<8 | minor.
func (a *archive) add(name string, mode int, content []byte, device int) {
	a.entries++
	fmt.Fprintf(a, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.entries, mode, 0, 0, 1, 0, len(content), 0, 0, device>>8, device&0xff, len(name)+1, 0)
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(content)
	a.pad()
}

// pad fills up to a multiple of 4 bytes.
func (a *archive) pad() { a.Write(make([]byte, -a.Len()&3)) }
