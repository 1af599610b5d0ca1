package kmod

import (
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Modules are the modules of a folder, such as /lib/modules/VERSION. It may be used by several goroutines.
type Modules struct {
	*Index
	folder string
	// commandLine reads the kernel's command line, and insert gives a file to the kernel.
	commandLine func() (string, error)
	insert      func(file, parameters string) error

	mu sync.Mutex
	// tried are the modules that the kernel has, or has refused, and why: it isn't asked again for a device.
	tried map[string]error
}

// Open reads depmod's files of a folder. Only modules.dep must be there.
func Open(folder string) (*Modules, error) {
	var t Texts
	for _, f := range []struct {
		name string
		text *string
	}{{"modules.dep", &t.Dep}, {"modules.alias", &t.Alias}, {"modules.builtin", &t.BuiltIn}, {"modules.softdep", &t.SoftDep}} {
		raw, err := os.ReadFile(filepath.Join(folder, f.name))
		if err != nil && (f.name == "modules.dep" || !errors.Is(err, fs.ErrNotExist)) {
			return nil, errors.Wrap(err, "cannot read the list of kernel modules")
		}
		*f.text = string(raw)
	}
	index, err := Read(t)
	if err != nil {
		return nil, errors.WithMessagef(err, "cannot use the modules in %s", folder)
	}
	return &Modules{Index: index, folder: folder, commandLine: readCommandLine, insert: insert, tried: map[string]error{}}, nil
}

func readCommandLine() (string, error) {
	raw, err := os.ReadFile("/proc/cmdline")
	return string(raw), err
}

// insert gives a file to the kernel. The module may be there already.
func insert(file, parameters string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), parameters, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Load loads the module of a name or of an alias such as fs-btrfs, with all that it needs and the parameters that the
// kernel's command line has for it. What is built into the kernel or loaded already is no failure.
func (m *Modules) Load(name string) error {
	steps, err := m.Steps(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err = m.take(steps)
	return err
}

// LoadAlias loads the modules of an alias, such as a device's modalias. An alias of no module is no failure.
func (m *Modules) LoadAlias(text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.loadAlias(text)
	return err
}

// LoadForDevices loads the modules of all devices that a sysfs shows, and returns how many modules are new. Drivers of
// buses make further devices, a moment later: call it again until it loads none. It goes on after a module that can't be
// loaded; every module's failure is returned once. Devices whose aliases begin with one of the texts but are left out.
func (m *Modules) LoadForDevices(sys string, but ...string) (loaded int, err error) {
	aliases, err := deviceAliases(sys)
	if err != nil {
		return 0, err
	}
	aliases = slices.DeleteFunc(aliases, func(alias string) bool {
		return slices.ContainsFunc(but, func(start string) bool { return strings.HasPrefix(alias, start) })
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	var failed []error
	for _, text := range aliases {
		n, err := m.loadAlias(text)
		loaded += n
		if err != nil {
			failed = append(failed, err)
		}
	}
	return loaded, stderrors.Join(failed...)
}

// deviceAliases are the different modaliases below a sysfs's folder devices, sorted.
func deviceAliases(sys string) ([]string, error) {
	have := map[string]bool{}
	top := filepath.Join(sys, "devices")
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path != top: // the device has gone
			return nil
		case err != nil:
			return errors.Wrap(err, "cannot look for devices")
		case entry.Name() != "modalias" || !entry.Type().IsRegular():
			return nil
		}
		raw, err := os.ReadFile(path)
		if text := strings.TrimSpace(string(raw)); err == nil && text != "" {
			have[text] = true
		}
		return nil
	})
	out := make([]string, 0, len(have))
	for text := range have {
		out = append(out, text)
	}
	slices.Sort(out)
	return out, err
}

// loadAlias loads modules that the kernel has neither got nor refused yet.
func (m *Modules) loadAlias(text string) (loaded int, err error) {
	var failed []error
	for _, name := range m.Names(text) {
		if _, tried := m.tried[name]; tried {
			continue
		}
		line, err := m.commandLine()
		if err == nil && refused(line)[name] {
			m.tried[name] = errors.Errorf("the kernel's command line refuses module %s for devices", name)
			continue
		}
		steps, err := m.Steps(name)
		if err == nil {
			var n int
			n, err = m.take(steps)
			loaded += n
		}
		if err != nil {
			m.tried[name] = err
			failed = append(failed, err)
		}
	}
	return loaded, stderrors.Join(failed...)
}

// take does steps that aren't done yet. It ends at the first that must succeed and doesn't.
func (m *Modules) take(steps []Step) (loaded int, err error) {
	line, err := m.commandLine()
	if err != nil {
		return 0, errors.Wrap(err, "cannot read the parameters of modules")
	}
	for _, s := range steps {
		if before, tried := m.tried[s.Name]; tried && before == nil {
			continue
		}
		err := m.insert(filepath.Join(m.folder, s.Path), parameters(line, s.Name))
		m.tried[s.Name] = err
		switch {
		case err == nil:
			loaded++
		case !s.Soft:
			return loaded, errors.Wrapf(err, "cannot load module %s", s.Name)
		}
	}
	return loaded, nil
}
