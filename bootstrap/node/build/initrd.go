package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/internal/guest/kmod"
	"github.com/croft-edge/croft/internal/initrd"
)

// packInitrd makes the initrd: stage 1, the modules that lead to the image, from the folder of all modules, and the text of the public key
// that images must be signed by, or nil. Stage 1 gives files to the kernel as they are, so that the folder's modules aren't packed.
func packInitrd(modules string, program, key []byte) ([]byte, error) {
	index, err := kmod.Open(modules)
	if err != nil {
		return nil, err
	}
	steps, err := bootSteps(index, bootModules())
	if err != nil {
		return nil, err
	}
	var files []initrd.File
	add := func(name, content string) {
		files = append(files, initrd.File{Path: "modules/" + name, Content: []byte(content)})
	}
	kept := map[string]bool{}
	for _, s := range steps {
		kept[s.Name] = true
		content, err := os.ReadFile(filepath.Join(modules, s.Path))
		if err != nil {
			return nil, err
		}
		add(path.Base(s.Path), string(content))
	}
	for _, list := range []struct {
		name string
		cut  func(text string, kept map[string]bool) string
	}{{"modules.dep", cutDependencies}, {"modules.alias", cutAliases}, {"modules.softdep", cutSoft}, {"modules.builtin", whole}} {
		text, err := os.ReadFile(filepath.Join(modules, list.name))
		if err != nil {
			return nil, err
		}
		add(list.name, list.cut(string(text), kept))
	}
	if key != nil {
		files = append(files, initrd.File{Path: "image.pub", Content: key})
	}
	// What a network server has is put there (boot.ipxe): the kernel makes no folder for it.
	files = append(files, initrd.File{Path: "image", Folder: true})
	return initrd.PackFiles(program, files)
}

// bootSteps are the modules of names with all that they need, each once.
func bootSteps(index *kmod.Modules, names []string) ([]kmod.Step, error) {
	var out []kmod.Step
	have := map[string]bool{}
	for _, name := range names {
		steps, err := index.Steps(name)
		if err != nil {
			return nil, err
		}
		for _, s := range steps {
			if !have[s.Name] {
				have[s.Name] = true
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// cutDependencies are the lines of modules.dep for kept modules, whose files all lie in one folder.
func cutDependencies(text string, kept map[string]bool) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		file, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		if !kept[kmod.Name(file)] {
			continue
		}
		out.WriteString(path.Base(file) + ":")
		for _, need := range strings.Fields(needs) {
			out.WriteString(" " + path.Base(need))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// cutAliases are the lines of modules.alias for kept modules.
func cutAliases(text string, kept map[string]bool) string {
	return linesOf(text, kept, 2)
}

// cutSoft are the lines of modules.softdep for kept modules.
func cutSoft(text string, kept map[string]bool) string { return linesOf(text, kept, 1) }

// linesOf are the lines whose word of that number is a kept module.
func linesOf(text string, kept map[string]bool, word int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > word && !strings.HasPrefix(line, "#") && kept[kmod.Name(f[word])] {
			out.WriteString(line)
		}
	}
	return out.String()
}

// whole is a text as it is.
func whole(text string, _ map[string]bool) string { return text }
