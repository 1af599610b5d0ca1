package kmod

import (
	"path"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// Index is what depmod knows of a kernel's modules. Names of modules have underscores, as the kernel has them.
type Index struct {
	files   map[string]file
	builtIn map[string]bool
	// aliases are lines of modules.alias, of which there are tens of thousands, by the text before their pattern's first colon; those with a
	// wildcard in it are at "".
	aliases map[string][]string
	// before are the modules or aliases that are loaded before a module when they are there, after those that are
	// loaded after it.
	before, after map[string][]string
}

// file is a line of modules.dep.
type file struct {
	path  string
	needs []string
}

// Texts are the contents of depmod's files; only that of modules.dep can't be empty.
type Texts struct {
	Dep, Alias, BuiltIn, SoftDep string
}

// Read reads the contents of depmod's files.
func Read(t Texts) (*Index, error) {
	x := &Index{
		files: map[string]file{}, builtIn: map[string]bool{}, aliases: map[string][]string{}, before: map[string][]string{}, after: map[string][]string{},
	}
	for line := range strings.Lines(t.Dep) {
		at, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			return nil, errors.Errorf("cannot read modules.dep: the line %q must have a colon", strings.TrimSpace(line))
		}
		f := file{path: at}
		for _, need := range strings.Fields(needs) {
			f.needs = append(f.needs, Name(need))
		}
		x.files[Name(at)] = f
	}
	if len(x.files) == 0 {
		return nil, errors.New("cannot read modules.dep: it must have a line for each module, and has none")
	}
	for _, name := range strings.Fields(t.BuiltIn) {
		x.builtIn[Name(name)] = true
	}
	for line := range strings.Lines(t.Alias) {
		if text, ok := strings.CutPrefix(line, "alias "); ok {
			pattern, _, _ := strings.Cut(text, " ")
			key := bus(pattern)
			x.aliases[key] = append(x.aliases[key], text)
		}
	}
	x.readSoft(t.SoftDep)
	return x, nil
}

// readSoft reads lines such as "softdep btrfs pre: crc32c post: zlib".
func (x *Index) readSoft(text string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "softdep" {
			continue
		}
		list, module := x.before, Name(f[1])
		for _, word := range f[2:] {
			switch word {
			case "pre:":
				list = x.before
			case "post:":
				list = x.after
			default:
				list[module] = append(list[module], plain(word))
			}
		}
	}
}

// bus is the part of a pattern before its first colon, without which few patterns are; empty where it has a wildcard.
func bus(pattern string) string {
	before, _, _ := strings.Cut(pattern, ":")
	if strings.ContainsAny(before, "*?[") {
		return ""
	}
	return plain(before)
}

// begins reports whether a text can match a pattern: it begins like it, up to the first character that may stand for others.
func begins(pattern, text string) bool {
	fixed := pattern
	if i := strings.IndexAny(pattern, "*?[-"); i >= 0 {
		fixed = pattern[:i]
	}
	return strings.HasPrefix(text, fixed)
}

// Name is the name of the module in a file, or a name as people write it, as the kernel has it.
func Name(name string) string {
	name, _, _ = strings.Cut(path.Base(name), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// Has reports whether there is a file of the module, and BuiltIn whether it is a part of the kernel.
func (x *Index) Has(name string) bool { _, ok := x.files[Name(name)]; return ok }

// BuiltIn reports whether the module is a part of the kernel.
func (x *Index) BuiltIn(name string) bool { return x.builtIn[Name(name)] }

// Files are the paths of all modules' files below the folder of modules, sorted.
func (x *Index) Files() []string {
	out := make([]string, 0, len(x.files))
	for _, f := range x.files {
		out = append(out, f.path)
	}
	slices.Sort(out)
	return out
}

// Names are the modules that an alias stands for, such as a device's modalias or fs-btrfs, those that are parts of the
// kernel left out; sorted.
func (x *Index) Names(text string) []string {
	text = plain(text)
	found := map[string]bool{}
	keys := []string{""}
	if key := bus(text); key != "" {
		keys = append(keys, key)
	}
	for _, key := range keys {
		for _, line := range x.aliases[key] {
			pattern, module, _ := strings.Cut(line, " ")
			if !begins(pattern, text) {
				continue
			}
			if name := Name(strings.TrimSpace(module)); x.Has(name) && match(plain(pattern), text) {
				found[name] = true
			}
		}
	}
	out := make([]string, 0, len(found))
	for name := range found {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Step is a module to load.
type Step struct {
	// Name is the module's, Path that of its file below the folder of modules.
	Name, Path string
	// Soft says that what comes after it can go on without.
	Soft bool
}

// Steps are the modules to load for a name or an alias, each after those that it needs; none for what is a part of the
// kernel. It fails when there is no such module.
func (x *Index) Steps(name string) ([]Step, error) {
	p := plan{index: x, done: map[string]bool{}}
	wanted := []string{Name(name)}
	if !x.Has(name) {
		if wanted = x.Names(name); len(wanted) == 0 {
			if x.BuiltIn(name) {
				return nil, nil
			}
			return nil, errors.Errorf("cannot find module %s: no file of the kernel's has it, and it isn't built in", name)
		}
	}
	for _, module := range wanted {
		if err := p.add(module, false); err != nil {
			return nil, err
		}
	}
	return p.steps, nil
}

// plan collects steps.
type plan struct {
	index *Index
	done  map[string]bool
	steps []Step
}

func (p *plan) add(name string, soft bool) error {
	if p.done[name] {
		return nil
	}
	p.done[name] = true
	f, ok := p.index.files[name]
	if !ok {
		if p.index.builtIn[name] || soft {
			return nil
		}
		return errors.Errorf("cannot find module %s, which another needs: modules.dep must have a line for it", name)
	}
	p.addSoft(p.index.before[name])
	for i := len(f.needs) - 1; i >= 0; i-- { // depmod writes first what is loaded last
		if err := p.add(f.needs[i], soft); err != nil {
			return err
		}
	}
	p.steps = append(p.steps, Step{Name: name, Path: f.path, Soft: soft})
	p.addSoft(p.index.after[name])
	return nil
}

// addSoft adds modules, or those of aliases, that may be missing.
func (p *plan) addSoft(names []string) {
	for _, name := range names {
		wanted := []string{name}
		if !p.index.Has(name) {
			wanted = p.index.Names(name)
		}
		for _, module := range wanted {
			_ = p.add(module, true) // what is missing is left out
		}
	}
}
